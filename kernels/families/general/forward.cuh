// Forward attention for any width and dtype: the online softmax over blocks of 32 keys, as in
// kernels/cpu/attend.cpp. One source for softmax attention and dynamic mask attention: what bias, keep mask
// and softcap do to a pair is a Mask's (no_mask.cuh says what a Mask has).
#pragma once

#include <cstdint>

#include "kernels/families/general/online_softmax.cuh"
#include "kernels/families/general/tile.cuh"

namespace cplab::kernels::cuda {

// One thread block per work tile and query head.
template <class Mask>
__global__ void __launch_bounds__(general_threads)
    attend_general(const __grid_constant__ typename Mask::Params params) {
  using T = typename Mask::Value;
  __shared__ ScoreBlock<T> scores;
  __shared__ OperandBlock<T> q_block, k_block;
  __shared__ ColumnBlock<T> values;
  constexpr std::int32_t columns = GeneralShape<T>::columns;
  const AttendParams& call = Mask::call(params);
  const WorkTile tile = call.work.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = head / (call.q.heads / call.k.heads);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(call.scale);
  const Mask mask(params, head);
  const RowBlock q_rows{call.q, head, tile.begin, tile.end};

  // Values wider than `columns` take several passes, each with the scores computed again.
  for (std::int32_t column = 0; column < call.v.width; column += columns) {
    Online<T> online;
    Accumulator<T> out = {};
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      online.maximum[i] = minus_infinity<T>();
      online.sum[i] = 0;
    }
    for (std::int32_t s = 0; s < tile.count; ++s) {
      const DeviceSegment segment = call.work.segments[tile.first + s];
      const std::int32_t begin = max(tile.begin, segment.q_begin);
      const std::int32_t end = min(tile.end, segment.q_end);
      if (begin >= end) continue;
      const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
      const std::int32_t keys_end = min(segment.k_end, end + segment.high);
      for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
        if (!mask.may_keep_keys(tile.begin, key, min(key + general_rows, keys_end))) continue;
        multiply_rows<T>(q_rows, {call.k, kv_head, key, keys_end}, q_block, k_block, scores);
        load_columns<T>({call.v, kv_head, key, keys_end}, column, values, columns);
        __syncthreads();
        std::uint32_t masks[rows_per_warp];
#pragma unroll
        for (std::int32_t i = 0; i < rows_per_warp; ++i) {
          const std::int32_t r = warp + general_warps * i;
          const std::int32_t row = tile.begin + r;
          const std::int32_t j = key + lane;
          const bool counts = row >= begin && row < end && j < keys_end && j >= row + segment.low &&
                              j <= row + segment.high && mask.keeps(row, j);
          masks[i] = __ballot_sync(~0U, counts);
          if constexpr (Mask::changes_scores) {
            T slope;
            if (counts) scores[r][lane] = mask.logit(product(scale, scores[r][lane]), row, j, slope);
          }
        }
        softmax_step<T>(scores, masks, Mask::changes_scores ? T(1) : scale, call.v.dtype, online, out);
        accumulate<T>(scores, masks, values, out);
      }
    }
    if constexpr (!Mask::changes_scores)
      if (column + columns >= call.v.width)
        raise_max_logit<T>(call, head, tile.begin + warp, tile.end, online);
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      const std::int32_t row = tile.begin + warp + general_warps * i;
      if (row < tile.end)
        write_row<T>(call, row, head, column + lane, column + columns >= call.v.width, online.maximum[i],
                     online.sum[i], out[i]);
    }
  }
}

}  // namespace cplab::kernels::cuda
