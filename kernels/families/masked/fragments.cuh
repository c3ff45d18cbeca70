// Bias and keep mask of a warp's 16-row accumulator in registers, for the mma kernels of dynamic mask
// attention, and which of its pairs count.
#pragma once

#include <cstdint>

#include "kernels/families/masked/pair_mask.cuh"
#include "kernels/families/mma/parts/block_walk.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda {

// Elements [n][e] of accumulators (accumulators.cuh), two to a register: those of rows g and g + 8.
template <int n_tiles>
using PairFragment = std::uint32_t[n_tiles][2];

// What a warp's accumulator is of: rows first_row .. + 15 of the tile, which ends at row_end, and columns
// first_column .. column_end - 1. owner says whether rows are queries.
template <Owner owner>
struct PairBox {
  int row, row_end;  // the lane's first row
  int column, column_end;
};

template <Owner owner>
__device__ __forceinline__ PairBox<owner> pair_box(const Walk& walk, const Block& block, int column) {
  const int thread = thread_index();
  return {walk.tile.begin + thread / 32 * 16 + thread % 32 / 4, walk.tile.end, column, block.end};
}

template <class T>
__device__ __forceinline__ std::uint32_t raw_element(const DeviceView& view, std::int64_t offset) {
  static_assert(sizeof(T) == 2);
  return static_cast<const std::uint16_t*>(view.data)[offset];
}

// Numbers of the mask in view `view`, heads `head`, for a box; 0 outside it, where nothing is read.
template <class T, Owner owner, int n_tiles>
__device__ __forceinline__ void load_pairs(PairFragment<n_tiles>& into, const DevicePairMask& mask,
                                           const DeviceView& view, int head, const PairBox<owner>& box) {
  const int lane_column = box.column + 2 * (thread_index() & 3);
#pragma unroll
  for (int n = 0; n < n_tiles; ++n) into[n][0] = into[n][1] = 0;
  if (view.data == nullptr) return;
  if (!mask.full) {  // one number for a key
    if constexpr (owner == Owner::queries) {
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const int key = lane_column + 8 * n;
        std::uint32_t pair = 0;
        if (key < box.column_end) pair = raw_element<T>(view, row_offset(view, key, head));
        if (key + 1 < box.column_end) pair |= raw_element<T>(view, row_offset(view, key + 1, head)) << 16;
        into[n][0] = into[n][1] = pair;
      }
    } else {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int key = box.row + 8 * half;
        std::uint32_t both = 0;
        if (key < box.row_end) both = raw_element<T>(view, row_offset(view, key, head)) * 0x10001U;
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) into[n][half] = both;
      }
    }
    return;
  }
  if constexpr (owner == Owner::queries) {
    const bool two =
        mask.columns == nullptr && ((mask.first_column + box.column) & 1) == 0 && pairs_aligned<T>(view);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = box.row + 8 * half;
      if (query >= box.row_end) continue;
      const std::uint16_t* const line =
          static_cast<const std::uint16_t*>(view.data) + row_offset(view, query, head);
      if (two) {
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
          const int key = lane_column + 8 * n;
          const std::uint16_t* const from = line + mask.first_column + key;
          if (key + 1 < box.column_end)
            into[n][half] = *reinterpret_cast<const std::uint32_t*>(from);
          else if (key < box.column_end)
            into[n][half] = *from;
        }
        continue;
      }
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          const int key = lane_column + 8 * n + e;
          if (key >= box.column_end) continue;
          const int column = mask.columns != nullptr ? mask.columns[key] : mask.first_column + key;
          into[n][half] |= static_cast<std::uint32_t>(line[column]) << (16 * e);
        }
    }
  } else {
    int columns[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int key = min(box.row + 8 * half, box.row_end - 1);
      columns[half] = mask.columns != nullptr ? mask.columns[key] : mask.first_column + key;
    }
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const int query = lane_column + 8 * n + e;
        if (query >= box.column_end) continue;
        const std::uint16_t* const line =
            static_cast<const std::uint16_t*>(view.data) + row_offset(view, query, head);
#pragma unroll
        for (int half = 0; half < 2; ++half)
          into[n][half] |= static_cast<std::uint32_t>(line[columns[half]]) << (16 * e);
      }
  }
}

// Which elements of an accumulator count: bit 4 n + e of element [n][e].
constexpr std::uint32_t upper_rows = 0x33333333U;  // of row g; the others are of row g + 8

// Those that the segment shows.
template <int n_tiles>
__device__ __forceinline__ std::uint32_t visible_pairs(const Walk& walk, const Block& block, int column,
                                                       Cover cover) {
  static_assert(n_tiles <= 8);
  constexpr std::uint32_t all = n_tiles == 8 ? ~0U : (1U << (4 * n_tiles % 32)) - 1;
  if (cover == Cover::all) return all;
  const int thread = thread_index();
  std::uint32_t visible = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int i = walk.tile.begin + thread / 32 * 16 + 8 * half + thread % 32 / 4;
    if (i < block.row_begin || i >= block.row_end) continue;
    const int begin = max(column, i + block.low) - column;
    const int last = min(min(column + 8 * n_tiles, block.end) - 1, i + block.high) - column;
    const int first = begin - 2 * (thread & 3);
    const auto count = static_cast<unsigned>(max(last - begin + 1, 0));
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 2; ++e)
        if (static_cast<unsigned>(8 * n + e - first) < count) visible |= 1U << (4 * n + 2 * half + e);
  }
  return visible;
}

// Those that are kept: the number is not 0, of either sign.
template <int n_tiles>
__device__ __forceinline__ std::uint32_t kept_pairs(const PairFragment<n_tiles>& keep) {
  std::uint32_t kept = 0;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      if ((keep[n][half] & 0x7fffU) != 0) kept |= 1U << (4 * n + 2 * half);
      if ((keep[n][half] & 0x7fff0000U) != 0) kept |= 2U << (4 * n + 2 * half);
    }
  return kept;
}

__device__ __forceinline__ bool counts(std::uint32_t live, int n, int e) {
  return (live >> (4 * n + e) & 1U) != 0;
}

// Bias of elements e = 2 half and 2 half + 1.
template <class T>
__device__ __forceinline__ float2 widened(std::uint32_t pair) {
  typename Pair<T>::type two;
  static_assert(sizeof(two) == sizeof(pair));
  memcpy(&two, &pair, sizeof(two));
  return Pair<T>::widen(two);
}

struct LogitScale {
  float scale, softcap;
};

// The bias of positions of a box's elements, of one query head.
template <Owner owner>
struct PlacedBias {
  const DevicePairMask& mask;
  int head;
  const PairBox<owner>& box;

  __device__ __forceinline__ bool there() const { return mask.positions != nullptr; }
  // Of element [n][e]; of one outside the box that of another inside.
  __device__ __forceinline__ float operator()(int n, int e) const {
    const int row = min(box.row + 8 * (e / 2), box.row_end - 1);
    const int column = min(box.column + 2 * (thread_index() & 3) + 8 * n + e % 2, box.column_end - 1);
    return owner == Owner::queries ? placed_bias<float>(mask, head, row, column)
                                   : placed_bias<float>(mask, head, column, row);
  }
};

// From q.k to x in units of log2; `slope` becomes dx/dz.
template <class T, bool slopes, int n_tiles, Owner owner>
__device__ __forceinline__ void to_logits(float (&s)[n_tiles][4], const PairFragment<n_tiles>& bias,
                                          const PlacedBias<owner>& placed, const LogitScale& by,
                                          float (&slope)[slopes ? n_tiles : 1][4]) {
  const float inverse = by.softcap != 0 ? 1 / by.softcap : 0;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 b = widened<T>(bias[n][half]);
      s[n][2 * half] = fmaf(s[n][2 * half], by.scale, b.x);
      s[n][2 * half + 1] = fmaf(s[n][2 * half + 1], by.scale, b.y);
    }
  if (placed.there()) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) s[n][e] += placed(n, e);
  }
  if (by.softcap == 0) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        s[n][e] *= log2_e;
        if constexpr (slopes) slope[n][e] = 1;
      }
    return;
  }
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      const float t = tanhf(s[n][e] * inverse);
      s[n][e] = by.softcap * log2_e * t;
      if constexpr (slopes) slope[n][e] = fmaf(-t, t, 1.0F);
    }
}

// Whether a row of the lane, g (half 0) or g + 8, has a bit in what any of its four lanes has `seen`.
__device__ __forceinline__ bool row_seen(std::uint32_t seen, int half) {
  seen &= half == 0 ? upper_rows : ~upper_rows;
  seen |= __shfl_xor_sync(all_lanes, seen, 1);
  seen |= __shfl_xor_sync(all_lanes, seen, 2);
  return seen != 0;
}

}  // namespace cplab::kernels::cuda
