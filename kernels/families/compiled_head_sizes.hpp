// The head sizes that kernels are compiled for, from kernels/CMakeLists.txt, which also compiles these. Only
// sources of the target cplab_kernels include this: the definitions are of that target alone.
#pragma once

#include "kernels/families/head_sizes.hpp"

namespace cplab::kernels::cuda {

inline constexpr int hopper_head_sizes[] = {CPLAB_HOPPER_HEAD_SIZES};
inline constexpr int hopper_wide_head_sizes[] = {CPLAB_HOPPER_WIDE_HEAD_SIZES};
inline constexpr int mma_head_sizes[] = {CPLAB_MMA_HEAD_SIZES};
inline constexpr int full_head_sizes[] = {CPLAB_FULL_HEAD_SIZES};
inline constexpr auto decode_head_pairs = head_pairs<CPLAB_DECODE_HEAD_PAIRS>();
inline constexpr auto full_head_pairs = head_pairs<CPLAB_FULL_HEAD_PAIRS>();

}  // namespace cplab::kernels::cuda
