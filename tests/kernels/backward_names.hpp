// What backward kernels are called, those for bf16 and head size 128.
#pragma once

namespace cplab::testing {

inline constexpr const char* fused_kernel = "attend_backward hopper fused bf16 128";
inline constexpr const char* fused_small_kernel = "attend_backward hopper fused bf16 128, 64 keys";
inline constexpr const char* ordered_kernel = "attend_backward hopper ordered bf16 128";
inline constexpr const char* apart_kernel = "attend_backward hopper bf16 128";
inline constexpr const char* mma_kernel = "attend_backward mma bf16 128";
inline constexpr const char* mma_small_kernel = "attend_backward mma bf16 128, small tiles";

}  // namespace cplab::testing
