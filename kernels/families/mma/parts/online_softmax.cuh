// The online softmax of the mma kernels, and the first part of their epilogue.
#pragma once

#include "kernels/families/parts/finished_row.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/softmax.cuh"

namespace cplab::kernels::cuda {

// One step of the online softmax on 16 rows: scores s become P = exp(scale (s - maximum)), and the running
// sums and `out` are rescaled to the new maximum.
template <int n_tiles, int d_tiles>
__device__ __forceinline__ void softmax_step(float (&s)[n_tiles][4], float (&out)[d_tiles][4],
                                             SoftmaxState& rows, float scale_log2) {
  float rescale[2];
  float sum[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float held = rows.maximum[half];
    float highest = held;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) highest = fmaxf(highest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    highest = row_max(highest);
    rows.maximum[half] = highest;
    const float shift = scaled_maximum(highest, scale_log2);
    // No fused multiply-add: the factor must be exactly 1 where the maximum stays.
    rescale[half] = exp2_approx(__fmul_rn(held, scale_log2) - shift);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        s[n][e] = exp2_approx(fmaf(s[n][e], scale_log2, -shift));
        sum[half] += s[n][e];
      }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) rows.sum[half] = fmaf(rows.sum[half], rescale[half], sum[half]);
  // After the first blocks the maximum seldom moves.
  if (!__any_sync(all_lanes, rescale[0] != 1 || rescale[1] != 1)) return;
#pragma unroll
  for (int d = 0; d < d_tiles; ++d)
#pragma unroll
    for (int e = 0; e < 4; ++e) out[d][e] *= rescale[e / 2];
}

// Epilogue, first part: writes lse of a warp's rows and says how out is to be written. Rows from tile_end on
// belong to no tile and are left alone.
template <int m_tiles, int threads>
__device__ __forceinline__ void finish_rows(const AttendParams& params, const SoftmaxState* softmax,
                                            float scale_log2, int head, int first, int tile_end, int lane,
                                            RowUpdate (&updates)[m_tiles][2]) {
  float lse[m_tiles][2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const FinishedRow finished =
          finish_row(params, head, row, row < tile_end, row_sum(softmax[m * threads].sum[half]),
                     scaled_maximum(softmax[m * threads].maximum[half], scale_log2));
      updates[m][half] = finished.update;
      lse[m][half] = finished.lse;
    }
  __syncwarp();  // four lanes have read what one of them overwrites
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (updates[m][half].write && (lane & 3) == 0)
        *row_of<float>(params.lse, head, first + 16 * m + 8 * half + lane / 4) = lse[m][half];
}

}  // namespace cplab::kernels::cuda
