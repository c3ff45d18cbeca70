// max_logit in the epilogues of the attention kernels: a uniform branch where nobody asks for it, else one
// atomic maximum for each warp, tile and head. A maximum is exact, so the order of these does not matter.
#pragma once

#include <cstdint>

#include "kernels/families/parts/accumulators.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// By the threads of a warp together. `maximum`: of the unscaled scores of 2 * m_tiles rows that the lane has,
// rows first + 16 m + 8 half + lane / 4, alike on the four lanes of a row; -inf where a row sees no key. Rows
// from tile_end on belong to no tile. The scale is positive (fits.cpp).
template <int m_tiles, class Maximum>
__device__ __forceinline__ void raise_max_logit(const AttendParams& call, int head, int first, int tile_end,
                                                int lane, Maximum maximum) {
  if (call.max_logit == nullptr) return;
  float highest = -infinity();
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (first + 16 * m + 8 * half + lane / 4 < tile_end) highest = fmaxf(highest, maximum(m, half));
#pragma unroll
  for (int distance = 16; distance >= 4; distance /= 2)
    highest = fmaxf(highest, __shfl_xor_sync(all_lanes, highest, distance));
  if (lane == 0 && highest != -infinity())
    atomic_max(static_cast<float*>(call.max_logit) + head * call.max_logit_stride,
               highest * static_cast<float>(call.scale));
}

}  // namespace cplab::kernels::cuda
