// The kernels of linear attention that take any width, dtype, stride and chunk: correct first, fast second.
#pragma once

#include <vector>

#include "kernels/cuda/linear_table.hpp"

namespace cplab::kernels::cuda {

// Of LinearLocal, LinearLocalBackward and LinearInter; of LinearState; of LinearScan and LinearCombine. fp32
// sums for bf16, fp16 and fp32; with CPLAB_FULL_KERNELS also fp64 for fp64.
std::vector<LinearKernel> linear_walk_kernels();
std::vector<LinearKernel> linear_state_kernels();
std::vector<LinearKernel> linear_scan_kernels();

// Of LinearLocal and LinearLocalBackward in bf16 and fp16, of head sizes up to 128.
std::vector<LinearKernel> linear_mma_kernels();

}  // namespace cplab::kernels::cuda
