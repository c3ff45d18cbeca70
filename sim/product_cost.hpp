// What the matrix products of latent keys and values cost.
#pragma once

#include "plan/plan.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

// Of project, project_backward and weight_gradient, which a library's kernels compute: thread blocks of 128 x
// 256 results each, of all heads one call, in waves at the share of peak_flops that products reach
// (efficiency_of, KernelClass::gemm); no faster than its operands go through memory. Where results are too
// few to give every multiprocessor some, several thread blocks sum up parts of one, as libraries do.
KernelCost product_cost(const Hardware&, const RankPlan&, const Operation&, DType nominal);

}  // namespace cplab
