// Softmax attention of a tile for any width and dtype, online over blocks of 32 keys, as
// kernels/cpu/attend.cpp does it. One thread block per work tile and query head.
#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attend_general.hpp"
#include "kernels/cuda/general_tile.cuh"

namespace cplab::kernels::cuda {
namespace {

// The softmax of the warp's rows so far; the same on all lanes.
template <class T>
struct Online {
  T maximum[rows_per_warp];
  T sum[rows_per_warp];
};

// A maximum of -inf means that no score was above -inf, or that all were NaN: shifting by 0 gives 0 for the
// first and keeps the second visible.
template <class T>
__device__ inline T finite_shift(T maximum) {
  return maximum == minus_infinity<T>() ? T(0) : maximum;
}

// Scores to rounded weights exp(scale s - maximum); moves the state to the new maximum. masks[i]: the keys
// that row i of the warp sees.
template <class T>
__device__ inline void weigh(ScoreBlock<T>& scores, const std::uint32_t (&masks)[rows_per_warp], T scale,
                             DType nominal, Online<T>& online, Accumulator<T>& out) {
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i) {
    if (masks[i] == 0) continue;  // the same for all lanes
    const bool visible = (masks[i] >> lane & 1U) != 0;
    const T score = product(scale, scores[warp + general_warps * i][lane]);
    T highest = online.maximum[i];
    if (visible && score > highest) highest = score;
    highest = warp_maximum(highest);
    if (highest != online.maximum[i]) {  // from -inf on, too: exp gives 0 and the state is 0
      const T shrink = exp(online.maximum[i] - highest);
      online.sum[i] *= shrink;
#pragma unroll
      for (std::int32_t x = 0; x < GeneralShape<T>::columns_per_lane; ++x) out[i][x] *= shrink;
    }
    online.maximum[i] = highest;
    const T weight = visible ? exp(score - finite_shift(highest)) : T(0);
    online.sum[i] += warp_sum(weight);
    scores[warp + general_warps * i][lane] = rounded_as(weight, nominal);
  }
  __syncwarp();  // a warp reads the rows that it wrote
}

// One row of the result, columns `column`, column + 32, ...; lse only with the last columns.
template <class T>
__device__ inline void write_row(const AttendParams& p, std::int32_t row, std::int32_t head,
                                 std::int32_t column, bool last, T maximum, T sum,
                                 const T (&out)[GeneralShape<T>::columns_per_lane]) {
  const bool empty = sum == T(0);
  const bool merge = p.write == Write::merge;
  if (merge && empty) return;
  T lse = empty ? minus_infinity<T>() : finite_shift(maximum) + log(sum);
  const T held = merge ? load_first<T>(p.lse, row, head) : minus_infinity<T>();
  T held_weight = 0;
  T part_weight = 1;
  const bool holds = held != minus_infinity<T>();
  if (holds) {
    const T merged = merged_lse(held, lse);
    held_weight = exp(held - merged);
    part_weight = exp(lse - merged);
    lse = merged;
  }
  const std::int64_t at = row_offset(p.out, row, head);
#pragma unroll
  for (std::int32_t x = 0; x < GeneralShape<T>::columns_per_lane; ++x) {
    if (column + 32 * x >= p.out.width) break;
    T value = empty ? T(0) : out[x] / sum;
    if (holds)
      value = load_element_as<T>(p.out.data, p.out.dtype, at + column + 32 * x) * held_weight +
              value * part_weight;
    store_element_as<T>(value, p.out.data, p.out.dtype, at + column + 32 * x);
  }
  __syncwarp();  // all lanes have read the lse that was held
  if (last && threadIdx.x % 32 == 0)
    store_element_as<T>(lse, p.lse.data, p.lse.dtype, row_offset(p.lse, row, head));
}

template <class T>
__global__ void __launch_bounds__(general_threads) attend_general(const __grid_constant__ AttendParams p) {
  __shared__ ScoreBlock<T> scores;
  __shared__ OperandBlock<T> q_block, k_block;
  __shared__ ColumnBlock<T> values;
  constexpr std::int32_t columns = GeneralShape<T>::columns;
  const WorkTile tile = p.work.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = head / (p.q.heads / p.k.heads);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(p.scale);
  const RowBlock q_rows{p.q, head, tile.begin, tile.end};

  // Values wider than `columns` take several passes, each with the scores computed anew.
  for (std::int32_t column = 0; column < p.v.width; column += columns) {
    Online<T> online;
    Accumulator<T> out = {};
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      online.maximum[i] = minus_infinity<T>();
      online.sum[i] = 0;
    }
    for (std::int32_t s = 0; s < tile.count; ++s) {
      const DeviceSegment segment = p.work.segments[tile.first + s];
      const std::int32_t begin = max(tile.begin, segment.q_begin);
      const std::int32_t end = min(tile.end, segment.q_end);
      if (begin >= end) continue;
      const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
      const std::int32_t keys_end = min(segment.k_end, end + segment.high);
      for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
        multiply_rows<T>(q_rows, {p.k, kv_head, key, keys_end}, q_block, k_block, scores);
        load_columns<T>({p.v, kv_head, key, keys_end}, column, values, columns);
        __syncthreads();
        std::uint32_t masks[rows_per_warp];
#pragma unroll
        for (std::int32_t i = 0; i < rows_per_warp; ++i) {
          const std::int32_t row = tile.begin + warp + general_warps * i;
          const std::int32_t j = key + lane;
          masks[i] = __ballot_sync(~0U, row >= begin && row < end && j < keys_end && j >= row + segment.low &&
                                            j <= row + segment.high);
        }
        weigh<T>(scores, masks, scale, p.v.dtype, online, out);
        accumulate<T>(scores, masks, values, out);
      }
    }
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      const std::int32_t row = tile.begin + warp + general_warps * i;
      if (row < tile.end)
        write_row<T>(p, row, head, column + lane, column + columns >= p.v.width, online.maximum[i],
                     online.sum[i], out[i]);
    }
  }
}

template <class T>
void launch_general(const AttendParams& p, CUstream_st* stream) {
  if (p.work.count == 0 || p.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(p.work.count), static_cast<unsigned>(p.q.heads));
  attend_general<T><<<grid, general_threads, 0, stream>>>(p);
}

bool has_fp64(const Attend& call) {
  return call.q.dtype == DType::fp64 || call.k.dtype == DType::fp64 || call.v.dtype == DType::fp64;
}

template <class T>
const void* const* kernels_of() {
  static const void* const kernels[] = {reinterpret_cast<const void*>(&attend_general<T>), nullptr};
  return kernels;
}

}  // namespace

std::span<const AttendVariant> attend_general_variants() {
  static const AttendVariant variants[] = {
      {.name = "attend general",
       .sm_major = 0,
       .q_tile_rows = general_rows,
       .tile_costs = {},
       .fits = [](const Attend& call) { return !has_fp64(call); },
       .bind = bind_parameters<launch_general<float>>,
       .kernels = kernels_of<float>(),
       .shared_bytes = 0},
#ifdef CPLAB_FULL_KERNELS
      {.name = "attend general fp64",
       .sm_major = 0,
       .q_tile_rows = general_rows,
       .tile_costs = {},
       .fits = has_fp64,
       .bind = bind_parameters<launch_general<double>>,
       .kernels = kernels_of<double>(),
       .shared_bytes = 0},
#endif
  };
  return variants;
}

}  // namespace cplab::kernels::cuda
