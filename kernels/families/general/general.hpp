// The attention kernels that take any width, dtype, stride and alignment: correct first, fast second.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"

namespace cplab::kernels::cuda {

// fp32 accumulators for bf16, fp16 and fp32; with CPLAB_FULL_KERNELS also fp64 for fp64.
std::vector<AttendKernel> general_forward_kernels();
std::vector<AttendBackwardKernel> general_backward_kernels();

}  // namespace cplab::kernels::cuda
