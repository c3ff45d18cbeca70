// What a calibrated machine is before anything was measured: a hardware file's numbers, all of them assumed.
#pragma once

#include <string>

#include "calibrate/machine.hpp"
#include "sim/hardware.hpp"

namespace cplab::measure {

// Of a GPU that no shipped file describes: the data sheet of the fastest product of its compute capability,
// attention at half of its peak, usual costs of a host and of messages.
Hardware data_sheet(const Machine& machine);

// The machine with the numbers of `base`, every one assumed, "from FILE" and where that has it from. Rates of
// another GPU's kernels are left out: then those of the program count.
Hardware assumed_machine(const Hardware& base, const std::string& file, const Machine& machine);

}  // namespace cplab::measure
