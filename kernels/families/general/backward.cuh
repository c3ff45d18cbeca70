// Backward attention for any width and dtype, as in kernels/cpu/attend_backward.cpp, without atomics: a
// kernel for dq with tiles of query rows, and one for dk and dv with tiles of key rows, which walks over the
// query heads of the key head. Each thread block computes some columns of one gradient. One source for
// softmax attention and dynamic mask attention, as forward.cuh: dz = P (dP - delta) dx/dz.
#pragma once

#include <cstdint>

#include "kernels/families/general/tile.cuh"

namespace cplab::kernels::cuda {

// One thread block per work tile, query head (y) and columns of dq (z).
template <class Mask>
__global__ void __launch_bounds__(general_threads, Mask::dq_blocks)
    attend_backward_general_dq(const __grid_constant__ typename Mask::BackwardParams params) {
  using T = typename Mask::Value;
  __shared__ ScoreBlock<T> scores, dp;
  __shared__ OperandBlock<T> a_block, b_block;
  __shared__ ColumnBlock<T> values;
  const AttendBackwardParams& call = Mask::call(params);
  const WorkTile tile = call.by_q.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t column = static_cast<std::int32_t>(blockIdx.z) * GeneralShape<T>::columns;
  const std::int32_t kv_head = head / (call.q.heads / call.k.heads);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(call.scale);
  const Mask mask(params, head);
  const RowBlock q_rows{call.q, head, tile.begin, tile.end};
  const RowBlock dout_rows{call.dout, head, tile.begin, tile.end};

  T lse[rows_per_warp];
  T delta[rows_per_warp];
  bool seen[rows_per_warp] = {};
  Accumulator<T> sum = {};
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i) {
    const std::int32_t row = tile.begin + warp + general_warps * i;
    lse[i] = row < tile.end ? load_first<T>(call.lse, row, head) : minus_infinity<T>();
    delta[i] = row < tile.end ? load_first<T>(call.delta, row, head) : T(0);
  }
  for (std::int32_t s = 0; s < tile.count; ++s) {
    const DeviceSegment segment = call.by_q.segments[tile.first + s];
    const std::int32_t begin = max(tile.begin, segment.q_begin);
    const std::int32_t end = min(tile.end, segment.q_end);
    if (begin >= end) continue;
    const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
    const std::int32_t keys_end = min(segment.k_end, end + segment.high);
    for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
      if (!mask.may_keep_keys(tile.begin, key, min(key + general_rows, keys_end))) continue;
      const RowBlock k_rows{call.k, kv_head, key, keys_end};
      multiply_rows<T>(q_rows, k_rows, a_block, b_block, scores);
      multiply_rows<T>(dout_rows, {call.v, kv_head, key, keys_end}, a_block, b_block, dp);
      load_columns<T>(k_rows, column, values, GeneralShape<T>::columns);
      __syncthreads();
      std::uint32_t masks[rows_per_warp];
#pragma unroll
      for (std::int32_t i = 0; i < rows_per_warp; ++i) {
        const std::int32_t r = warp + general_warps * i;
        const std::int32_t row = tile.begin + r;
        const std::int32_t j = key + lane;
        // A final lse of -inf: the row sees no key in any tile, and may hold anything.
        const bool counts = row >= begin && row < end && j < keys_end && j >= row + segment.low &&
                            j <= row + segment.high && lse[i] != minus_infinity<T>() && mask.keeps(row, j);
        masks[i] = __ballot_sync(~0U, counts);
        seen[i] = seen[i] || masks[i] != 0;
        if (counts) {
          T slope;
          const T p = exp(mask.logit(product(scale, scores[r][lane]), row, j, slope) - lse[i]);
          scores[r][lane] = rounded_as(p * (dp[r][lane] - delta[i]) * slope, call.k.dtype);
        }
      }
      __syncwarp();  // a warp reads the rows that it wrote
      accumulate<T>(scores, masks, values, sum);
    }
  }
  const bool add = call.write_dq == Write::add;
#pragma unroll
  for (std::int32_t i = 0; i < rows_per_warp; ++i) {
    const std::int32_t row = tile.begin + warp + general_warps * i;
    if (row >= tile.end || (add && !seen[i])) continue;
    write_gradient<T>(call.dq, row, head, column + lane, sum[i], scale, add);
  }
}

// One thread block per work tile, key head (y) and columns of dk or, behind those, of dv (z).
template <class Mask>
__global__ void __launch_bounds__(general_threads)
    attend_backward_general_dkv(const __grid_constant__ typename Mask::BackwardParams params,
                                std::int32_t dk_passes) {
  using T = typename Mask::Value;
  __shared__ ScoreBlock<T> scores, dp;
  __shared__ OperandBlock<T> a_block, b_block;
  __shared__ ColumnBlock<T> values;
  const AttendBackwardParams& call = Mask::call(params);
  const WorkTile tile = call.by_k.tiles[blockIdx.x];
  const auto kv_head = static_cast<std::int32_t>(blockIdx.y);
  const auto pass = static_cast<std::int32_t>(blockIdx.z);
  const bool is_dk = pass < dk_passes;
  const std::int32_t column = (is_dk ? pass : pass - dk_passes) * GeneralShape<T>::columns;
  const std::int32_t group = call.q.heads / call.k.heads;
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(call.scale);
  const RowBlock k_rows{call.k, kv_head, tile.begin, tile.end};
  const RowBlock v_rows{call.v, kv_head, tile.begin, tile.end};

  bool seen[rows_per_warp] = {};
  Accumulator<T> sum = {};
  for (std::int32_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
    const Mask mask(params, head);
    for (std::int32_t s = 0; s < tile.count; ++s) {
      const DeviceSegment segment = call.by_k.segments[tile.first + s];
      const std::int32_t begin = max(tile.begin, segment.k_begin);
      const std::int32_t end = min(tile.end, segment.k_end);
      if (begin >= end) continue;
      const std::int32_t queries_begin = max(segment.q_begin, begin - segment.high);
      const std::int32_t queries_end = min(segment.q_end, end - segment.low);
      for (std::int32_t query = queries_begin; query < queries_end; query += general_rows) {
        if (!mask.may_keep_queries(tile.begin, query, min(query + general_rows, queries_end))) continue;
        const RowBlock q_rows{call.q, head, query, queries_end};
        const RowBlock dout_rows{call.dout, head, query, queries_end};
        multiply_rows<T>(k_rows, q_rows, a_block, b_block, scores);
        if (is_dk) multiply_rows<T>(v_rows, dout_rows, a_block, b_block, dp);
        load_columns<T>(is_dk ? q_rows : dout_rows, column, values, GeneralShape<T>::columns);
        __syncthreads();
        const std::int32_t i = query + lane;
        const bool inside = i < queries_end;
        const T lse = inside ? load_first<T>(call.lse, i, head) : minus_infinity<T>();
        const T delta = inside ? load_first<T>(call.delta, i, head) : T(0);
        std::uint32_t masks[rows_per_warp];
#pragma unroll
        for (std::int32_t n = 0; n < rows_per_warp; ++n) {
          const std::int32_t r = warp + general_warps * n;
          const std::int32_t key = tile.begin + r;
          const bool counts = inside && key >= begin && key < end && key >= i + segment.low &&
                              key <= i + segment.high && lse != minus_infinity<T>() && mask.keeps(i, key);
          masks[n] = __ballot_sync(~0U, counts);
          seen[n] = seen[n] || masks[n] != 0;
          if (counts) {
            T slope;
            const T p = exp(mask.logit(product(scale, scores[r][lane]), i, key, slope) - lse);
            scores[r][lane] = is_dk ? rounded_as(p * (dp[r][lane] - delta) * slope, call.k.dtype)
                                    : rounded_as(p, call.v.dtype);
          }
        }
        __syncwarp();  // a warp reads the rows that it wrote
        accumulate<T>(scores, masks, values, sum);
      }
    }
  }
  const bool add = call.write_dk == Write::add;
#pragma unroll
  for (std::int32_t n = 0; n < rows_per_warp; ++n) {
    const std::int32_t key = tile.begin + warp + general_warps * n;
    if (key >= tile.end || (add && !seen[n])) continue;
    write_gradient<T>(is_dk ? call.dk : call.dv, key, kv_head, column + lane, sum[n], is_dk ? scale : T(1),
                      add);
  }
}

}  // namespace cplab::kernels::cuda
