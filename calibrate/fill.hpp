// What was measured, as tables of a machine: in place of what was assumed, beside what was measured before.
#pragma once

#include <string>
#include <vector>

#include "calibrate/machine.hpp"
#include "sim/hardware.hpp"

namespace cplab::measure {

// Takes `found` into the machine:
// - a curve that falls by noise, which only adds, is lowered to the least time of larger sizes, as a hardware
//   file may not descend;
// - the slow-down of attention beside NCCL is divided by sms / (sms - channels): the simulator takes those
//   multiprocessors away itself;
// - where the machine's attention has a burst, points that were timed at once have tables of their own
//   (sustained = false);
// - fp16 is the bf16 times, assumed: the same tensor-core rate, the same bytes;
// - an exchange faster than the link of [node] raises that, as an assumption.
// A table that no machine can have (sim/plausible.hpp) is left out. Each of these is a sentence of what is
// returned where somebody should know it.
std::vector<std::string> take(const Measurement& found, const Machine& machine, Hardware& into);

}  // namespace cplab::measure
