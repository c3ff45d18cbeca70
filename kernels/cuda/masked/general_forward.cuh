// Forward of dynamic mask attention for any width and dtype: general/forward.cu with bias and keep mask.
#pragma once

#include <cstdint>

#include "kernels/cuda/general/online_softmax.cuh"
#include "kernels/cuda/masked/general_pairs.cuh"

namespace cplab::kernels::cuda {

template <class T>
__global__ void __launch_bounds__(general_threads)
    attend_masked_general(const __grid_constant__ MaskedParams params) {
  __shared__ ScoreBlock<T> scores;
  __shared__ OperandBlock<T> q_block, k_block;
  __shared__ ColumnBlock<T> values;
  constexpr std::int32_t columns = GeneralShape<T>::columns;
  const AttendParams& call = params.tile;
  const WorkTile tile = call.work.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t kv_head = head / (call.q.heads / call.k.heads);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const T scale = static_cast<T>(call.scale);
  const HeadMask<T> mask(params.mask, head, call.q.heads);
  const RowBlock q_rows{call.q, head, tile.begin, tile.end};

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
        if (!may_be_kept(params.mask.by_q, mask.keep_head, tile.begin, key,
                         min(key + general_rows, keys_end)))
          continue;
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
          T slope;
          if (counts) scores[r][lane] = mask.logit(product(scale, scores[r][lane]), row, j, slope);
        }
        softmax_step<T>(scores, masks, T(1), call.v.dtype, online, out);
        accumulate<T>(scores, masks, values, out);
      }
    }
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
