// The running softmax of rows, and what becomes of their out and lse at the end: for all attention kernels on
// tensor cores.
#pragma once

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda {

// The running softmax of two rows (g and g + 8 of a 16-row sum), as one lane holds it: their maxima, of
// unscaled products, and the sums of the lane's own weights. Touched once a block, it lies in shared memory:
// registers are short.
struct __align__(16) SoftmaxRows {
  float maximum[2];
  float sum[2];
};

// A maximum in units of log2; 0 if nothing was seen yet: then every weight is exp2(-inf) = 0.
__device__ __forceinline__ float shift_of(float maximum, float scale_log2) {
  return maximum == -infinity() ? 0 : maximum * scale_log2;
}

// Both above -inf (or NaN): max + log1p(exp(min - max)).
__device__ __forceinline__ float merged_lse(float a, float b) {
  const float high = a < b ? b : a;
  const float low = a < b ? a : b;
  return high + log1pf(expf(low - high));
}

// Writes lse of a warp's rows and says what becomes of their out. Rows from tile_end on are nobody's.
template <int m_tiles, int threads>
__device__ __forceinline__ void finish_rows(const AttendParams& params, const SoftmaxRows* softmax,
                                            float scale_log2, int head, int first, int tile_end, int lane,
                                            RowUpdate (&updates)[m_tiles][2]) {
  float lse[m_tiles][2];
  const bool merge = params.write == Write::merge;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const float sum = row_sum(softmax[m * threads].sum[half]);
      const bool empty = sum == 0;
      RowUpdate& update = updates[m][half];
      update.write = row < tile_end && !(merge && empty);
      update.factor = empty ? 0 : 1 / sum;
      lse[m][half] = empty ? -infinity()
                           : fmaf(shift_of(softmax[m * threads].maximum[half], scale_log2), ln_2, logf(sum));
      if (!update.write || !merge) continue;
      const float held = *row_of<const float>(params.lse, head, row);
      if (held == -infinity()) continue;
      const float merged = merged_lse(held, lse[m][half]);
      update.old_factor = expf(held - merged);
      update.factor *= expf(lse[m][half] - merged);
      lse[m][half] = merged;
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
