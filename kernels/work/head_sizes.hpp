// The head sizes that kernels are compiled for, from kernels/CMakeLists.txt, which also compiles these. Only
// the sources of kernels/work/ include this: the definitions are of their target alone.
#pragma once

namespace cplab::kernels::cuda {

inline constexpr int hopper_head_sizes[] = {CPLAB_HOPPER_HEAD_SIZES};
inline constexpr int mma_head_sizes[] = {CPLAB_MMA_HEAD_SIZES};
inline constexpr int full_head_sizes[] = {CPLAB_FULL_HEAD_SIZES};

}  // namespace cplab::kernels::cuda
