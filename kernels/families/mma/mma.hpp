// The mma.sync attention kernels of this build, any architecture from SM 8.0 on: bf16 and fp16, keys and
// values of the head sizes in kernels/CMakeLists.txt. Declared for kernel_table.cpp; each is compiled in a
// translation unit of its own
// (*.cu.in).
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"

namespace cplab::kernels::cuda {

template <int key_size, int value_size>
std::vector<AttendKernel> mma_forward_kernels();
template <int key_size, int value_size>
std::vector<AttendBackwardKernel> mma_backward_kernels();

}  // namespace cplab::kernels::cuda
