// Of a whole plan: which kernel `run` takes for every operation on the GPU of a hardware file, and why not
// the preferred one.
#pragma once

#include "plan/plan.hpp"
#include "report/timeline.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Timeline::variants and Timeline::fall_backs of attention, softmax and linear; empty for other operations.
// Throws HardwareError where no kernel takes a call.
void name_kernel_variants(const Plan&, const Hardware&, Timeline&);

// Asks for the kernels of all calls of attention, so that Hardware::known_variants has them. A call that no
// kernel takes is left to whoever needs one.
void find_kernel_variants(const Plan&, const Hardware&);

}  // namespace cplab
