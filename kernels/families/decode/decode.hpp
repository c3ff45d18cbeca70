// The kernels for few queries of this build. Declared for kernels.cpp; each pair of head sizes is compiled in
// a translation unit of its own (forward.cu.in).
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"

namespace cplab::kernels::cuda {

template <int key_size, int value_size>
std::vector<AttendKernel> decode_kernels();

}  // namespace cplab::kernels::cuda
