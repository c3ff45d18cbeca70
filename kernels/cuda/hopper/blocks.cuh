// What the Hopper kernels share of blocks: their rings, pairs that are not live, operands from sums.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/mma_walk.cuh"

namespace cplab::kernels::cuda::hopper {

// A ring of stages that is walked by an ever-growing count: where a count lies, and the parity that its n-th
// filling (or emptying) ends.
template <int stages>
struct Ring {
  static __device__ __forceinline__ int stage(int count) {
    return static_cast<int>(static_cast<unsigned>(count) % stages);
  }
  static __device__ __forceinline__ int parity(int count) {
    return static_cast<int>(static_cast<unsigned>(count) / stages & 1);
  }
};

// Whether all pairs of 16 rows from first_row on with the block's first `columns` columns are live.
template <int columns>
__device__ __forceinline__ bool all_live(const Block& block, int first_row) {
  const int row_last = first_row + 15, column_last = block.begin + columns - 1;
  return first_row >= block.row_begin && row_last < block.row_end && column_last < block.end &&
         row_last + block.low <= block.begin && column_last <= first_row + block.high;
}

// Replaces what 16 rows from first_row on hold of pairs that are not live, whatever it is.
template <int n_tiles>
__device__ __forceinline__ void mask_dead(float (&sums)[n_tiles][4], const Block& block, int first_row,
                                          float value) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = first_row + 8 * half + lane / 4;
    const bool in_rows = i >= block.row_begin && i < block.row_end;
    const int begin = max(block.begin, i + block.low) - block.begin;
    const int end = min(min(8 * n_tiles, block.end - block.begin), i + block.high - block.begin + 1);
    mask_row(sums, half, begin, in_rows ? end : begin, lane, value);
  }
}

// A bit for each of a lane's columns 8 n + 2 (lane % 4) + e, number 2 n + e, that are below `column`.
__device__ __forceinline__ std::uint32_t bits_below(int column, int lane) {
  const int from = max(column - 2 * (lane & 3), 0);
  const int count = from / 8 * 2 + min(from % 8, 2);
  return count >= 32 ? ~0u : (1u << count) - 1;
}

// mask_dead in fewer instructions, for up to 128 columns: a row's columns are bits of a word.
template <int n_tiles>
__device__ __forceinline__ void mask_dead_by_bits(float (&sums)[n_tiles][4], const Block& block,
                                                  int first_row, float value) {
  static_assert(n_tiles <= 16);
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = first_row + 8 * half + lane / 4;
    const int begin = i + block.low - block.begin;  // the block's columns start at 0
    const int end = min(block.end - block.begin, i + block.high - block.begin + 1);
    std::uint32_t live = bits_below(end, lane) & ~bits_below(begin, lane);
    if (i < block.row_begin || i >= block.row_end) live = 0;
#pragma unroll
    for (int bit = 0; bit < 2 * n_tiles; ++bit)
      if ((live >> bit & 1) == 0) sums[bit / 2][2 * half + bit % 2] = value;
  }
}

// Sums of 64 rows, rounded, as operand A of a product over the columns.
template <class T, int n_tiles>
__device__ __forceinline__ void pack_operand(const float (&from)[n_tiles][4],
                                             std::uint32_t (&into)[n_tiles / 2][4]) {
#pragma unroll
  for (int step = 0; step < n_tiles / 2; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part)
      into[step][part] = Element<T>::pack(from[2 * step + part / 2][2 * (part % 2)],
                                          from[2 * step + part / 2][2 * (part % 2) + 1]);
}

}  // namespace cplab::kernels::cuda::hopper
