// Computes dS from P and dP in the registers of a consumer.
#pragma once

#include <cuda_bf16.h>

#include <type_traits>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/scores.cuh"

namespace cplab::kernels::cuda::hopper {

// Whether dS is the gradient of Q K^T, scale P (dP - delta), and not that of the scaled scores, P (dP -
// delta). The scale costs nothing there; else dq and dk have to be multiplied by it. But fp16 has few bits
// for small numbers.
template <class T>
constexpr bool scales_ds = std::is_same_v<T, __nv_bfloat16>;

// What dP and delta are multiplied by in dS, for a call's scale; and what the sums for dq and dk are
// multiplied by.
template <class T>
inline float ds_factor(double scale) {
  return scales_ds<T> ? static_cast<float>(scale) : 1;
}
template <class T>
__device__ __forceinline__ float gradient_factor(const AttendBackwardParams& call) {
  return scales_ds<T> ? 1 : static_cast<float>(call.scale);
}

// dS = P (factor dP - factor delta), in place of dP, for columns 8 begin .. 8 end - 1. minus_delta comes with
// its factor; it is read here unless it has been read early.
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

// The same behind a softcap. lse and delta are read here.
template <int begin, int end, int n_tiles>
__device__ __forceinline__ void compute_capped_ds(float (&dp)[n_tiles][4], float factor,
                                                  const float (&p)[n_tiles][4], const LseDeltaPair* lse_delta,
                                                  const ScoreParams& by) {
#pragma unroll
  for (int n = begin; n < end; ++n) {
    asm volatile("" ::: "memory");  // no load may move above this: registers are short
    const LseDeltaPair of = lse_delta[4 * n];
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float of_logits = p[n][e] * cap_slope(p[n][e], e % 2 == 0 ? of.lse.x : of.lse.y, by);
      dp[n][e] = of_logits * fmaf(dp[n][e], factor, e % 2 == 0 ? of.minus_delta.x : of.minus_delta.y);
    }
  }
}

}  // namespace cplab::kernels::cuda::hopper
