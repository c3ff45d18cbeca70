// What an attention kernel costs alone on an idle GPU. Internal to sim/: standard_kernel_cost() says how.
#pragma once

#include "sim/kernel_cost.hpp"

namespace cplab {

// For attend and attend_backward. rowwise_cost: of a cast or row_dot of so many bytes, for backwards whose
// gradients another launch rounds, or that compute delta. `hardware` outlives it; one thread at a time.
// Throws HardwareError where a table is missing, or no kernel takes the call.
using RowwiseCost = std::function<KernelCost(const Plan&, OpKind, std::int64_t bytes)>;
KernelCostFunction attention_cost(const Hardware& hardware, ClockLift lift, RowwiseCost rowwise_cost);

}  // namespace cplab
