// The scan of a keep mask: which cells of 64 queries x 64 keys hold a kept pair
// (kernels/tiles/masked_params.hpp). It reads what the segments can show to a cell's queries, once, and
// writes one bit for 4,096 pairs.
#pragma once

#include <cstdint>

#include "kernels/families/masked/pair_mask.cuh"

namespace cplab::kernels::cuda {

constexpr int scan_threads = 256;
constexpr int scan_warps = scan_threads / 32;
constexpr int word_rows = cell_rows * cells_per_word;  // keys of a word

__device__ inline std::uint32_t& word_at(const CellBits& bits, int head, int row, int word) {
  return bits.words[(static_cast<std::int64_t>(head) * bits.rows + row) * bits.row_words + word];
}

// One thread block per query cell (x), word of its row (y) and head (z), for one number a pair. vector: 16
// bits an element, eight keys at an address of 16 bytes.
template <bool vector>
__device__ __forceinline__ void scan_pairs(const DevicePairMask& mask) {
  __shared__ std::uint32_t shared_word;
  const auto q_cell = static_cast<int>(blockIdx.x), word = static_cast<int>(blockIdx.y),
             head = static_cast<int>(blockIdx.z);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  const int first = word * word_rows;
  const KeyReach reach = mask.reach[q_cell];
  const int begin = max(first, reach.begin), end = min(first + word_rows, reach.end);
  if (threadIdx.x == 0) shared_word = 0;
  __syncthreads();
  std::uint32_t found = 0;  // vector: bit l of keys first + 256 l + 8 lane and seven more; else cells
  const int rows_end = min((q_cell + 1) * cell_rows, mask.q_rows);
  for (int row = q_cell * cell_rows + warp; begin < end && row < rows_end; row += scan_warps) {
    const std::int64_t line = row_offset(mask.keep, row, head);
    if constexpr (vector) {
      const auto* const numbers =
          static_cast<const std::uint16_t*>(mask.keep.data) + line + mask.first_column;
#pragma unroll
      for (int l = 0; l < 8; ++l) {
        const int key = first + 256 * l + 8 * lane;
        if (key >= end || key + 8 <= begin) continue;
        std::uint32_t any = 0;
        if (key + 8 <= mask.k_rows) {
          const uint4 eight = *reinterpret_cast<const uint4*>(numbers + key);
          any = (eight.x | eight.y | eight.z | eight.w) & 0x7fff7fffU;
        } else {
          for (int j = key; j < mask.k_rows; ++j) any |= numbers[j] & 0x7fffU;
        }
        if (any != 0) found |= 1U << l;
      }
    } else {
      for (int cell = 0; cell < cells_per_word; ++cell) {
        if ((found >> cell & 1U) != 0) continue;  // the same on all lanes
        bool any = false;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          const int key = first + cell * cell_rows + 32 * half + lane;
          if (key < begin || key >= end) continue;
          const int column = mask.columns != nullptr ? mask.columns[key] : mask.first_column + key;
          any = any || load_element_as<double>(mask.keep.data, mask.keep.dtype, line + column) != 0;
        }
        if (__any_sync(all_lanes, any)) found |= 1U << cell;
      }
    }
  }
  if constexpr (vector) {
    std::uint32_t cells = 0;
#pragma unroll
    for (int l = 0; l < 8; ++l) {
      const unsigned lanes = __ballot_sync(all_lanes, (found >> l & 1U) != 0);
#pragma unroll
      for (int part = 0; part < 4; ++part)
        if ((lanes >> (8 * part) & 0xffU) != 0) cells |= 1U << (4 * l + part);
    }
    found = cells;
  }
  if (lane == 0 && found != 0) atomicOr(&shared_word, found);
  __syncthreads();
  if (threadIdx.x == 0) word_at(mask.by_q, head, q_cell, word) = shared_word;
}

inline __global__ void __launch_bounds__(scan_threads)
    mask_scan_eight_keys(const __grid_constant__ DevicePairMask mask) {
  scan_pairs<true>(mask);
}

inline __global__ void __launch_bounds__(scan_threads, 6)
    mask_scan_pairs(const __grid_constant__ DevicePairMask mask) {
  scan_pairs<false>(mask);
}

// One thread block per word (x) and head (y), for one number a key: all query cells have the same row.
inline __global__ void __launch_bounds__(scan_threads)
    mask_scan_keys(const __grid_constant__ DevicePairMask mask) {
  __shared__ std::uint32_t shared_word;
  const auto word = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
  if (threadIdx.x == 0) shared_word = 0;
  __syncthreads();
  std::uint32_t found = 0;
  for (int cell = warp; cell < cells_per_word; cell += scan_warps) {
    bool any = false;
    for (int half = 0; half < 2; ++half) {
      const int key = word * word_rows + cell * cell_rows + 32 * half + lane;
      if (key < mask.k_rows) any = any || load_first<double>(mask.keep, key, head) != 0;
    }
    if (__any_sync(all_lanes, any)) found |= 1U << cell;
  }
  if (lane == 0 && found != 0) atomicOr(&shared_word, found);
  __syncthreads();
  for (int row = static_cast<int>(threadIdx.x); row < mask.by_q.rows; row += scan_threads)
    word_at(mask.by_q, head, row, word) = shared_word;
}

// by_k from by_q: one warp per 32 x 32 bits.
inline __global__ void __launch_bounds__(32)
    mask_scan_transpose(const __grid_constant__ DevicePairMask mask) {
  const auto k_word = static_cast<int>(blockIdx.x), q_word = static_cast<int>(blockIdx.y),
             head = static_cast<int>(blockIdx.z);
  const auto lane = static_cast<int>(threadIdx.x);
  const int row = q_word * cells_per_word + lane;
  const std::uint32_t bits = row < mask.by_q.rows ? word_at(mask.by_q, head, row, k_word) : 0;
  std::uint32_t mine = 0;
  for (int n = 0; n < 32; ++n) {
    const unsigned column = __ballot_sync(all_lanes, (bits >> n & 1U) != 0);
    if (lane == n) mine = column;
  }
  const int column = k_word * cells_per_word + lane;
  if (column < mask.by_k.rows) word_at(mask.by_k, head, column, q_word) = mine;
}

}  // namespace cplab::kernels::cuda
