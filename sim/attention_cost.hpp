// What an attention kernel costs alone on an idle GPU. Internal to sim/: standard_kernel_cost() says how.
#pragma once

#include "sim/kernel_cost.hpp"

namespace cplab {

// For attend and attend_backward. `hardware` outlives it; one thread at a time. Throws HardwareError where a
// table is missing, or no kernel takes the call.
KernelCostFunction attention_cost(const Hardware& hardware, Clock clock);

}  // namespace cplab
