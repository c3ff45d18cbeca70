// What an attention kernel costs alone on an idle GPU. Internal to sim/: standard_kernel_cost() says how.
#pragma once

#include "sim/kernel_cost.hpp"

namespace cplab {

// For attend and attend_backward. cast_cost: of a cast of so many bytes, for backwards whose gradients
// another launch rounds. `hardware` outlives it; one thread at a time. Throws HardwareError where a table is
// missing, or no kernel takes the call.
using CastCost = std::function<KernelCost(const Plan&, std::int64_t bytes)>;
KernelCostFunction attention_cost(const Hardware& hardware, Clock clock, CastCost cast_cost);

}  // namespace cplab
