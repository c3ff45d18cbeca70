// Accumulators of mma.sync and wgmma in registers, and what is done to them row by row.
//
// Both instructions spread a 16-row accumulator over a warp alike (PTX ISA, "Matrix Fragments"), with g =
// lane / 4 and t = lane % 4: acc[n][4] holds rows g (elements 0, 1) and g + 8 (2, 3), columns 8 n + 2 t and
// one more.
#pragma once

#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {

// 16 m_tiles rows x 8 n_tiles columns of a warp.
template <int m_tiles, int n_tiles>
using Accumulators = float[m_tiles][n_tiles][4];

template <int m_tiles, int n_tiles>
__device__ __forceinline__ void clear(Accumulators<m_tiles, n_tiles>& acc) {
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) acc[m][n][e] = 0;
}

// Sets what a 16-row accumulator holds of row g (half 0) or g + 8 (half 1) outside columns [begin, end) to
// `value`, even where it was NaN.
template <int n_tiles>
__device__ __forceinline__ void mask_row(float (&acc)[n_tiles][4], int half, int begin, int end, int lane,
                                         float value) {
  const int first = begin - 2 * (lane & 3);
  const auto count = static_cast<unsigned>(max(end - begin, 0));
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 2; ++e)
      if (static_cast<unsigned>(8 * n + e - first) >= count) acc[n][2 * half + e] = value;
}

// Sum and maximum over the four lanes that share a row.
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(all_lanes, x, 1);
  return x + __shfl_xor_sync(all_lanes, x, 2);
}

__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(all_lanes, x, 1));
  return fmaxf(x, __shfl_xor_sync(all_lanes, x, 2));
}

}  // namespace cplab::kernels::cuda
