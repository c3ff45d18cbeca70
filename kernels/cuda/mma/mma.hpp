// The mma.sync attention kernels of this build, any architecture from SM 8.0 on: bf16 and fp16, equal head
// and value sizes. Declared for kernel_table.cpp; each head size is compiled in a translation unit of its own
// (*.cu.in).
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"

namespace cplab::kernels::cuda {

template <int head_size>
std::vector<AttendKernel> mma_forward_kernels();
template <int head_size>
std::vector<AttendBackwardKernel> mma_backward_kernels();

}  // namespace cplab::kernels::cuda
