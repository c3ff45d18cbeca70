// Masking: which pairs of an accumulator are live, and replacing the others.
#pragma once

#include <cstdint>

#include "kernels/families/parts/accumulators.cuh"
#include "kernels/families/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda::hopper {

// Returns whether all pairs of 16 rows, from first_row on, with the block's first `columns` columns
// are live.
template <int columns>
__device__ __forceinline__ bool all_live(const Block& block, int first_row) {
  const int row_last = first_row + 15, column_last = block.begin + columns - 1;
  return first_row >= block.row_begin && row_last < block.row_end && column_last < block.end &&
         row_last + block.low <= block.begin && column_last <= first_row + block.high;
}

// A lane holds columns 8 n + 2 (lane % 4) + e. Returns which of them are below `column`, as bits 2 n +
// e.
__device__ __forceinline__ std::uint32_t bits_below(int column, int lane) {
  const int from = max(column - 2 * (lane & 3), 0);
  const int count = from / 8 * 2 + min(from % 8, 2);
  return count >= 32 ? ~0u : (1u << count) - 1;
}

// Sets what an accumulator of 16 rows, from first_row on, and up to 128 columns holds for pairs that are not
// live to `value`, even where it was NaN. The live columns of a row are bits of one word.
template <int n_tiles>
__device__ __forceinline__ void mask_dead_by_bits(float (&sums)[n_tiles][4], const Block& block,
                                                  int first_row, float value) {
  static_assert(n_tiles <= 16);
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = first_row + 8 * half + lane / 4;
    const int begin = i + block.low - block.begin;  // relative to the block's first column
    const int end = min(block.end - block.begin, i + block.high - block.begin + 1);
    std::uint32_t live = bits_below(end, lane) & ~bits_below(begin, lane);
    if (i < block.row_begin || i >= block.row_end) live = 0;
#pragma unroll
    for (int bit = 0; bit < 2 * n_tiles; ++bit)
      if ((live >> bit & 1) == 0) sums[bit / 2][2 * half + bit % 2] = value;
  }
}

// Zeroes dP where P is 0. Pairs that are not live have P = 0, but their dP may be NaN.
template <int n_tiles>
__device__ __forceinline__ void zero_dead_dp(float (&dp)[n_tiles][4], const float (&p)[n_tiles][4]) {
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e)
      if (p[n][e] == 0) dp[n][e] = 0;
}

}  // namespace cplab::kernels::cuda::hopper
