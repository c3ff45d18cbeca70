// dS from P and dP in a consumer's registers.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

// Whether dS is that of Q K^T, and not of the scaled scores: scale P (dP - delta). The scale costs nothing
// there, where dq and dk would be multiplied with it. But fp16 has few bits for small numbers.
template <class T>
constexpr bool scales_ds = std::is_same_v<T, __nv_bfloat16>;

// The factor of dP and delta in dS, of a call's scale; and that of the sums for dq and dk.
template <class T>
inline float ds_factor(double scale) {
  return scales_ds<T> ? static_cast<float>(scale) : 1;
}
template <class T>
__device__ __forceinline__ float gradient_factor(const AttendBackwardParams& call) {
  return scales_ds<T> ? 1 : static_cast<float>(call.scale);
}

// dS = P (factor dP - factor delta), in place, of columns 8 begin .. 8 end - 1. Unless delta, which comes
// with its factor, has been read early it is read here.
template <bool read_early, int begin, int end, int n_tiles>
__device__ __forceinline__ void compute_ds(float (&dp)[n_tiles][4], float factor,
                                           const float (&p)[n_tiles][4], const LseDeltaPair* lse_delta,
                                           float2 (&minus_delta)[n_tiles]) {
#pragma unroll
  for (int n = begin; n < end; ++n) {
    if constexpr (!read_early) {
      if (n % 4 == 0) asm volatile("" ::: "memory");
      minus_delta[n] = lse_delta[4 * n].minus_delta;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
      dp[n][e] = p[n][e] * fmaf(dp[n][e], factor, e % 2 == 0 ? minus_delta[n].x : minus_delta[n].y);
  }
}

}  // namespace cplab::kernels::cuda::hopper
