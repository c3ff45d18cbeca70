// The kernels of linear attention with transitions of every token.
#pragma once

#include <vector>

#include "kernels/cuda/linear_table.hpp"

namespace cplab::kernels::cuda {

// Of LinearLocal, LinearLocalBackward and LinearState, of head sizes up to 64 and up to 128, for Hopper.
std::vector<LinearKernel> gated_bf16_kernels();
std::vector<LinearKernel> gated_fp16_kernels();
std::vector<LinearKernel> gated_fp32_kernels();

// Of LinearCombine with a transition, on every architecture.
std::vector<LinearKernel> gated_combine_kernels();

}  // namespace cplab::kernels::cuda
