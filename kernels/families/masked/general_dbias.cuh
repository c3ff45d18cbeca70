// The bias gradient of dynamic mask attention in either form, for any width, dtype and number of bias heads.
#pragma once

#include <cstdint>

#include "kernels/families/masked/general_pairs.cuh"

namespace cplab::kernels::cuda {

// dz of 32 queries and 32 keys of one query head, in dp; masks[i]: which of them count. Begins with a
// barrier.
template <class T>
struct DzBlock {
  ScoreBlock<T> scores, dp;
  OperandBlock<T> a_block, b_block;

  __device__ void compute(const MaskedBackwardParams& params, const DeviceSegment& segment, std::int32_t head,
                          std::int32_t query, std::int32_t query_end, std::int32_t key, std::int32_t key_end,
                          std::uint32_t (&masks)[rows_per_warp]) {
    const AttendBackwardParams& call = params.tile;
    const std::int32_t kv_head = head / (call.q.heads / call.k.heads);
    const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
    const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
    const HeadMask<T> mask(params, head);
    multiply_rows<T>({call.q, head, query, query_end}, {call.k, kv_head, key, key_end}, a_block, b_block,
                     scores);
    multiply_rows<T>({call.dout, head, query, query_end}, {call.v, kv_head, key, key_end}, a_block, b_block,
                     dp);
    __syncthreads();
#pragma unroll
    for (std::int32_t i = 0; i < rows_per_warp; ++i) {
      const std::int32_t r = warp + general_warps * i;
      const std::int32_t row = query + r;
      const std::int32_t j = key + lane;
      const T lse = row < query_end ? load_first<T>(call.lse, row, head) : minus_infinity<T>();
      const bool counts = row < query_end && j < key_end && j >= row + segment.low &&
                          j <= row + segment.high && lse != minus_infinity<T>() && mask.keeps(row, j);
      masks[i] = __ballot_sync(~0U, counts);
      T slope;
      T dz = 0;
      if (counts) {
        const T x = mask.logit(product(static_cast<T>(call.scale), scores[r][lane]), row, j, slope);
        dz = exp(x - lse) * (dp[r][lane] - load_first<T>(call.delta, row, head)) * slope;
      }
      dp[r][lane] = dz;
    }
  }
};

// Of a bias for each pair. One thread block per work tile of queries and bias head (y).
template <class T>
__global__ void __launch_bounds__(general_threads)
    attend_masked_general_dbias_pairs(const __grid_constant__ MaskedBackwardParams params) {
  __shared__ DzBlock<T> block;
  const AttendBackwardParams& call = params.tile;
  const WorkTile tile = call.by_q.tiles[blockIdx.x];
  const auto bias_head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t group = call.q.heads / params.dbias.heads;
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  const bool add = params.write_dbias == Write::add;
  for (std::int32_t s = 0; s < tile.count; ++s) {
    const DeviceSegment segment = call.by_q.segments[tile.first + s];
    const std::int32_t begin = max(tile.begin, segment.q_begin);
    const std::int32_t end = min(tile.end, segment.q_end);
    if (begin >= end) continue;
    const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
    const std::int32_t keys_end = min(segment.k_end, end + segment.high);
    for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
      T sum[rows_per_warp] = {};
      std::uint32_t seen[rows_per_warp] = {};
      for (std::int32_t head = bias_head * group; head < (bias_head + 1) * group; ++head) {
        const HeadMask<T> mask(params, head);
        if (!mask.may_keep_keys(tile.begin, key, min(key + general_rows, keys_end))) continue;
        std::uint32_t masks[rows_per_warp];
        block.compute(params, segment, head, begin, end, key, keys_end, masks);
#pragma unroll
        for (std::int32_t i = 0; i < rows_per_warp; ++i) {
          sum[i] += block.dp[warp + general_warps * i][lane];
          seen[i] |= masks[i];
        }
      }
#pragma unroll
      for (std::int32_t i = 0; i < rows_per_warp; ++i) {
        if ((seen[i] >> lane & 1U) == 0) continue;
        const std::int64_t at =
            pair_offset(params.mask, params.dbias, bias_head, begin + warp + general_warps * i, key + lane);
        T value = sum[i];
        if (add) value += load_element_as<T>(params.dbias.data, params.dbias.dtype, at);
        store_element_as<T>(value, params.dbias.data, params.dbias.dtype, at);
      }
    }
  }
}

// Of a table. One thread block per work tile of queries and query head (y), which sums in shared memory
// before it adds to what others sum: in an order that differs from run to run.
template <class T>
__global__ void __launch_bounds__(general_threads, 2)
    attend_masked_general_dtable(const __grid_constant__ MaskedBackwardParams params) {
  constexpr std::int32_t most_buckets = 1024;  // limits::buckets of the problem
  __shared__ DzBlock<T> block;
  __shared__ T sums[most_buckets];
  const AttendBackwardParams& call = params.tile;
  const WorkTile tile = call.by_q.tiles[blockIdx.x];
  const auto head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  for (auto x = static_cast<std::int32_t>(threadIdx.x); x < params.dtable.width; x += general_threads)
    sums[x] = 0;
  __syncthreads();
  for (std::int32_t s = 0; s < tile.count; ++s) {
    const DeviceSegment segment = call.by_q.segments[tile.first + s];
    const std::int32_t begin = max(tile.begin, segment.q_begin);
    const std::int32_t end = min(tile.end, segment.q_end);
    if (begin >= end) continue;
    const std::int32_t keys_begin = max(segment.k_begin, begin + segment.low);
    const std::int32_t keys_end = min(segment.k_end, end + segment.high);
    for (std::int32_t key = keys_begin; key < keys_end; key += general_rows) {
      std::uint32_t masks[rows_per_warp];
      block.compute(params, segment, head, begin, end, key, keys_end, masks);
      // Pairs that do not count are 0 in the block.
#pragma unroll 1
      for (std::int32_t r = warp; r < general_rows; r += general_warps) {
        const T dz = block.dp[r][lane];
        if (dz == T(0)) continue;
        const std::int32_t distance =
            params.mask.positions[key + lane] - params.mask.positions[params.mask.k_rows + begin + r];
        atomicAdd(&sums[bucket_of(params.mask, distance)], dz);
      }
    }
  }
  __syncthreads();
  T* const into = static_cast<T*>(params.dtable.data) + row_offset(params.dtable, 0, head);
  for (auto x = static_cast<std::int32_t>(threadIdx.x); x < params.dtable.width; x += general_threads)
    if (sums[x] != T(0)) atomicAdd(into + x, sums[x]);
}

// Of a bias for each key. One thread block per work tile of keys and bias head (y); a lane sums its key.
template <class T>
__global__ void __launch_bounds__(general_threads, 5)
    attend_masked_general_dbias_keys(const __grid_constant__ MaskedBackwardParams params) {
  __shared__ DzBlock<T> block;
  __shared__ T sums[general_warps][general_rows];
  __shared__ std::uint32_t touched[general_warps];
  const AttendBackwardParams& call = params.tile;
  const WorkTile tile = call.by_k.tiles[blockIdx.x];
  const auto bias_head = static_cast<std::int32_t>(blockIdx.y);
  const std::int32_t group = call.q.heads / params.dbias.heads;
  const std::int32_t warp = static_cast<std::int32_t>(threadIdx.x) / 32;
  const std::int32_t lane = static_cast<std::int32_t>(threadIdx.x) % 32;
  T sum = 0;
  std::uint32_t seen = 0;
  for (std::int32_t head = bias_head * group; head < (bias_head + 1) * group; ++head) {
    const HeadMask<T> mask(params, head);
    for (std::int32_t s = 0; s < tile.count; ++s) {
      DeviceSegment segment = call.by_k.segments[tile.first + s];
      const std::int32_t begin = max(tile.begin, segment.k_begin);
      const std::int32_t end = min(tile.end, segment.k_end);
      if (begin >= end) continue;
      const std::int32_t queries_begin = max(segment.q_begin, begin - segment.high);
      const std::int32_t queries_end = min(segment.q_end, end - segment.low);
      for (std::int32_t query = queries_begin; query < queries_end; query += general_rows) {
        if (!mask.may_keep_queries(tile.begin, query, min(query + general_rows, queries_end))) continue;
        std::uint32_t masks[rows_per_warp];
        block.compute(params, segment, head, query, queries_end, begin, end, masks);
#pragma unroll
        for (std::int32_t i = 0; i < rows_per_warp; ++i) {
          const std::uint32_t shift = static_cast<std::uint32_t>(begin - tile.begin);
          seen |= masks[i] << shift;
          // Lane l of the block is key begin + l; sums are by key of the tile.
          const T dz = __shfl_sync(~0U, block.dp[warp + general_warps * i][lane], (lane - shift) & 31);
          if (lane >= static_cast<std::int32_t>(shift)) sum += dz;
        }
      }
    }
  }
  sums[warp][lane] = sum;
  if (lane == 0) touched[warp] = seen;
  __syncthreads();
  const std::int32_t key = tile.begin + lane;
  if (warp != 0 || key >= tile.end) return;
  T value = 0;
  std::uint32_t any = 0;
  for (std::int32_t w = 0; w < general_warps; ++w) {
    value += sums[w][lane];
    any |= touched[w];
  }
  const bool add = params.write_dbias == Write::add;
  if (add && (any >> lane & 1U) == 0) return;
  const std::int64_t at = row_offset(params.dbias, key, bias_head);
  if (add) value += load_element_as<T>(params.dbias.data, params.dbias.dtype, at);
  store_element_as<T>(value, params.dbias.data, params.dbias.dtype, at);
}

}  // namespace cplab::kernels::cuda
