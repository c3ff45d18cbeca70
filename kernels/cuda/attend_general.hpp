// The attention kernels that take any width, dtype, stride and alignment: correct first, fast second.
#pragma once

#include <span>

#include "kernels/cuda/variants.hpp"

namespace cplab::kernels::cuda {

// fp32 sums for bf16, fp16 and fp32; with CPLAB_FULL_KERNELS also fp64 sums for fp64.
std::span<const AttendVariant> attend_general_variants();
std::span<const AttendBackwardVariant> attend_backward_general_variants();

}  // namespace cplab::kernels::cuda
