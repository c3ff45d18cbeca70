// The kernels that only Hopper can run: bf16 and fp16, views that TMA can read (tensor_map.cuh).
// Declared for kernel_table.cpp; each head size is compiled in a translation unit of its own
// (instance.cu.in, instance_chains.cu, instance_64_keys.cu), if 90a is among the architectures.
#pragma once

#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/linear_table.hpp"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward_apart/shape.hpp"
#include "kernels/families/hopper_forward/shape.hpp"
#include "kernels/tiles/heads_together.hpp"

namespace cplab::kernels::cuda::hopper {

template <int head_size>
std::vector<AttendKernel> forward_kernels();  // of all tile heights
template <int head_size>
std::vector<AttendBackwardKernel> backward_fused_kernels();
template <int head_size>
std::vector<AttendBackwardKernel> backward_chains_kernels();  // of head size 64
template <int head_size>
std::vector<AttendBackwardKernel> backward_fused_64_keys_kernels();  // of head size 128
template <int head_size>
std::vector<AttendBackwardKernel> backward_deterministic_kernels();
template <int head_size, int value_size>
std::vector<LinearKernel> linear_kernels();

}  // namespace cplab::kernels::cuda::hopper
