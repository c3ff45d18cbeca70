// The online softmax of the general kernels, and the epilogue of their forward.
#pragma once

#include <cstdint>

#include "kernels/families/general/tile.cuh"

namespace cplab::kernels::cuda {

// Running maximum and sum of the warp's rows; the same on all lanes.
template <class T>
struct Online {
  T maximum[rows_per_warp];
  T sum[rows_per_warp];
};

// What to subtract from scores. If the maximum is -inf, all scores were -inf or NaN: subtracting 0 makes P 0
// for the first and keeps NaN for the second.
template <class T>
__device__ inline T finite_shift(T maximum) {
  return maximum == minus_infinity<T>() ? T(0) : maximum;
}

// One step of the online softmax: scores become P = exp(scale s - maximum), rounded to `nominal`; the running
// maximum, sum and `out` follow. masks[i]: which keys of the block row i of the warp sees.
template <class T>
__device__ inline void softmax_step(ScoreBlock<T>& scores, const std::uint32_t (&masks)[rows_per_warp],
                                    T scale, DType nominal, Online<T>& online, Accumulator<T>& out) {
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
      const T rescale = exp(online.maximum[i] - highest);
      online.sum[i] *= rescale;
#pragma unroll
      for (std::int32_t x = 0; x < GeneralShape<T>::columns_per_lane; ++x) out[i][x] *= rescale;
    }
    online.maximum[i] = highest;
    const T p = visible ? exp(score - finite_shift(highest)) : T(0);
    online.sum[i] += warp_sum(p);
    scores[warp + general_warps * i][lane] = rounded_as(p, nominal);
  }
  __syncwarp();  // a warp reads the rows that it wrote
}

// The maxima of the warp's rows first, first + general_warps, ... before `end`, to max_logit.
template <class T>
__device__ inline void raise_max_logit(const AttendParams& params, std::int32_t head, std::int32_t first,
                                       std::int32_t end, const Online<T>& online) {
  if (params.max_logit == nullptr) return;
  T highest = minus_infinity<T>();
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i)
    if (first + general_warps * i < end && online.maximum[i] > highest) highest = online.maximum[i];
  if (threadIdx.x % 32 == 0 && highest != minus_infinity<T>())
    atomic_max(static_cast<T*>(params.max_logit) + head * params.max_logit_stride, highest);
}

// One row of the result, columns `column`, column + 32, ...; lse only with the last columns.
template <class T>
__device__ inline void write_row(const AttendParams& params, std::int32_t row, std::int32_t head,
                                 std::int32_t column, bool last, T maximum, T sum,
                                 const T (&out)[GeneralShape<T>::columns_per_lane]) {
  const bool empty = sum == T(0);
  const bool merge = params.write == Write::merge;
  if (merge && empty) return;
  T rescale = 1;                 // of out
  if (params.sink != nullptr) {  // one more score, whose value is 0
    const T sink = static_cast<const T*>(params.sink)[head * params.sink_stride];
    const T highest = sink > maximum ? sink : maximum, shift = finite_shift(highest);
    rescale = exp(maximum - shift);
    sum = sum * rescale + exp(sink - shift);
    maximum = highest;
  }
  T lse = sum == T(0) ? minus_infinity<T>() : finite_shift(maximum) + log(sum);
  const T held = merge ? load_first<T>(params.lse, row, head) : minus_infinity<T>();
  T held_weight = 0;
  T part_weight = 1;
  const bool holds = held != minus_infinity<T>();
  if (holds) {
    const T merged = merged_lse(held, lse);
    held_weight = exp(held - merged);
    part_weight = exp(lse - merged);
    lse = merged;
  }
  const std::int64_t at = row_offset(params.out, row, head);
#pragma unroll
  for (std::int32_t x = 0; x < GeneralShape<T>::columns_per_lane; ++x) {
    if (column + 32 * x >= params.out.width) break;
    T value = empty ? T(0) : out[x] * rescale / sum;
    if (holds)
      value = load_element_as<T>(params.out.data, params.out.dtype, at + column + 32 * x) * held_weight +
              value * part_weight;
    store_element_as<T>(value, params.out.data, params.out.dtype, at + column + 32 * x);
  }
  __syncwarp();  // all lanes have read the lse that was held
  if (last && threadIdx.x % 32 == 0)
    store_element_as<T>(lse, params.lse.data, params.lse.dtype, row_offset(params.lse, row, head));
}

}  // namespace cplab::kernels::cuda
