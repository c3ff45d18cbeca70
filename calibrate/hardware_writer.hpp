// A machine as the text of a hardware file: what cli/files/hardware_file reads back is the same machine.
#pragma once

#include <string>

#include "calibrate/record.hpp"
#include "sim/hardware.hpp"

namespace cplab::measure {

// All of `hardware` but its choice among kernels and its notes; numbers to the last bit. [calibration] and
// [accuracy] stand at the end, behind `calibration_heading`.
std::string hardware_text(const Hardware& hardware, const Record& record);
inline constexpr const char* calibration_heading = "\n[calibration]\n";

}  // namespace cplab::measure
