// dS from P and dP in a consumer's registers.
#pragma once

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"

namespace cplab::kernels::cuda::hopper {

// dS = P (dP - delta), in place, of columns 8 begin .. 8 end - 1. Unless delta has been read early it is read
// here.
template <bool read_early, int begin, int end, int n_tiles>
__device__ __forceinline__ void compute_ds(float (&dp)[n_tiles][4], const float (&p)[n_tiles][4],
                                           const LseDeltaPair* lse_delta, float2 (&minus_delta)[n_tiles]) {
#pragma unroll
  for (int n = begin; n < end; ++n) {
    if constexpr (!read_early) {
      if (n % 4 == 0) asm volatile("" ::: "memory");
      minus_delta[n] = lse_delta[4 * n].minus_delta;
    }
#pragma unroll
    for (int e = 0; e < 4; ++e)
      dp[n][e] = p[n][e] * (dp[n][e] + (e % 2 == 0 ? minus_delta[n].x : minus_delta[n].y));
  }
}

}  // namespace cplab::kernels::cuda::hopper
