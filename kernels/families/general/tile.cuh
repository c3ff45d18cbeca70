// Building blocks of the general attention kernels: 128 threads multiply 32 rows with 32 others, of any width
// and dtype, on ordinary cores; all operands go through shared memory in T.
//
// Of the 32 x 32 block of scores warp w has rows w, w + 4, ..., and lane c has column c. Pairs that are not
// live are skipped by a bit mask, never multiplied by 0: their rows may hold NaN.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_function.hpp"
#include "kernels/families/general/costs.hpp"
#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

constexpr std::int32_t general_rows = general_tile_rows;
static_assert(general_rows == 32);
constexpr std::int32_t general_threads = 128;
constexpr std::int32_t general_warps = general_threads / 32;
constexpr std::int32_t rows_per_warp = general_rows / general_warps;

constexpr KernelShape general_shape = {
    .threads = general_threads, .tile_rows = general_rows, .tile_columns = general_rows, .stages = 1};

template <class T>
struct GeneralShape {
  static constexpr std::int32_t depth = sizeof(T) == 8 ? 16 : 32;     // of a step of the first products
  static constexpr std::int32_t columns = sizeof(T) == 8 ? 64 : 128;  // of the result, at a time
  static constexpr std::int32_t columns_per_lane = columns / 32;
  // How many thread blocks share the columns of a gradient.
  static constexpr std::int32_t passes(std::int32_t width) { return (width + columns - 1) / columns; }
};

// Padded to 33 columns, so that a warp reading down a column meets 32 different banks.
template <class T>
using ScoreBlock = T[general_rows][general_rows + 1];

template <class T>
using OperandBlock = T[general_rows][GeneralShape<T>::depth + 1];

template <class T>
using ColumnBlock = T[general_rows][GeneralShape<T>::columns];

template <class T>
using Accumulator = T[rows_per_warp][GeneralShape<T>::columns_per_lane];

// Up to 32 rows, begin .. end, of one head of a view.
struct RowBlock {
  const DeviceView& view;
  std::int32_t head;
  std::int32_t begin, end;
};

// into[r][x] = row begin + r, column first + x; 0 outside the rows and the width.
template <class T, int width>
__device__ inline void load_columns(const RowBlock& rows, std::int32_t first, T (*into)[width],
                                    std::int32_t columns) {
  for (std::int32_t at = static_cast<std::int32_t>(threadIdx.x); at < general_rows * columns;
       at += general_threads) {
    const std::int32_t r = at / columns;
    const std::int32_t x = at % columns;
    const std::int32_t row = rows.begin + r;
    T value = 0;
    if (row < rows.end && first + x < rows.view.width)
      value = load_element_as<T>(rows.view.data, rows.view.dtype,
                                 row_offset(rows.view, row, rows.head) + first + x);
    into[r][x] = value;
  }
}

// scores[r][c] = sum over the width of a's row r times b's row c. Begins with a barrier, so that whatever the
// block read from shared memory before may be overwritten; a barrier must follow before scores are read.
template <class T>
__device__ inline void multiply_rows(const RowBlock& a, const RowBlock& b, OperandBlock<T>& a_block,
                                     OperandBlock<T>& b_block, ScoreBlock<T>& scores) {
  constexpr std::int32_t depth = GeneralShape<T>::depth;
  const std::int32_t r = static_cast<std::int32_t>(threadIdx.x) / 8;
  const std::int32_t c = static_cast<std::int32_t>(threadIdx.x) % 8;
  T sum[2][4] = {};
  for (std::int32_t first = 0; first < a.view.width; first += depth) {
    __syncthreads();
    load_columns<T>(a, first, a_block, depth);
    load_columns<T>(b, first, b_block, depth);
    __syncthreads();
#pragma unroll
    for (std::int32_t x = 0; x < depth; ++x) {
      const T a_low = a_block[r][x];
      const T a_high = a_block[r + 16][x];
#pragma unroll
      for (std::int32_t j = 0; j < 4; ++j) {
        const T value = b_block[c + 8 * j][x];
        sum[0][j] += a_low * value;
        sum[1][j] += a_high * value;
      }
    }
  }
#pragma unroll
  for (std::int32_t j = 0; j < 4; ++j) {
    scores[r][c + 8 * j] = sum[0][j];
    scores[r + 16][c + 8 * j] = sum[1][j];
  }
}

// sum[i] += p[row i of the warp][c] * values[c] over the columns c whose bit is set in masks[i].
template <class T>
__device__ inline void accumulate(const ScoreBlock<T>& p, const std::uint32_t (&masks)[rows_per_warp],
                                  const ColumnBlock<T>& values, Accumulator<T>& sum) {
  constexpr std::int32_t per_lane = GeneralShape<T>::columns_per_lane;
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  std::uint32_t any = 0;
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i) any |= masks[i];
  if (any == 0) return;
#pragma unroll 2
  for (std::int32_t c = 0; c < general_rows; ++c) {
    T value[per_lane];
#pragma unroll
    for (std::int32_t x = 0; x < per_lane; ++x) value[x] = values[c][lane + 32 * x];
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      if ((masks[i] >> c & 1U) == 0) continue;  // the same for all lanes
      const T factor = p[warp + general_warps * i][c];
#pragma unroll
      for (std::int32_t x = 0; x < per_lane; ++x) sum[i][x] += factor * value[x];
    }
  }
}

// Sum over a warp: the same on every lane, added in the same order in every run.
template <class T>
__device__ inline T warp_sum(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(~0U, value, distance);
  return value;
}

// Maximum over a warp, NaN left out.
template <class T>
__device__ inline T warp_maximum(T value) {
#pragma unroll
  for (int distance = 16; distance > 0; distance /= 2) {
    const T other = __shfl_xor_sync(~0U, value, distance);
    if (other > value) value = other;
  }
  return value;
}

// Writes columns first, first + 32, ... of a row: result * factor, added to what is there if `add`.
template <class T>
__device__ inline void write_gradient(const DeviceView& into, std::int32_t row, std::int32_t head,
                                      std::int32_t first, const T (&sum)[GeneralShape<T>::columns_per_lane],
                                      T factor, bool add) {
  const std::int64_t at = row_offset(into, row, head);
#pragma unroll
  for (std::int32_t x = 0; x < GeneralShape<T>::columns_per_lane; ++x) {
    const std::int32_t column = first + 32 * x;
    if (column >= into.width) break;
    T value = product(sum[x], factor);
    if (add) value += load_element_as<T>(into.data, into.dtype, at + column);
    store_element_as<T>(value, into.data, into.dtype, at + column);
  }
}

}  // namespace cplab::kernels::cuda
