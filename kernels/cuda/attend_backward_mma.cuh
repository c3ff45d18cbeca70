// Gradients of attention on tensor cores, in two kernels that never meet: no atomics, no scratch, the same
// bits every time. The first owns key rows and walks over queries (dk, dv), the second owns query rows and
// walks over keys (dq); both recompute the probabilities. The transposed products S^T = K Q^T and
// dP^T = V dO^T leave P^T and dS^T in registers as the A operands of dv += P^T dO and dk += dS^T Q.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/mma_walk.cuh"
#include "kernels/cuda/variants.hpp"

namespace cplab::kernels::cuda {

// dk, dv: `part` is how many queries of a block a warp takes at a time (what its registers can hold).
template <int D>
struct KeyGradientShape {
  static constexpr bool large = D > 64;
  static constexpr int m_tiles = large ? 1 : 2;
  static constexpr int warps = large ? 8 : 4;
  static constexpr int threads = 32 * warps;
  static constexpr int keys = warps * 16 * m_tiles;
  static constexpr int queries = 64;
  static constexpr int part = large ? 64 : 32;
  static constexpr int blocks_per_sm = large ? 1 : 2;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int q_bytes = queries * Tile<D>::row_bytes;
  static constexpr int row_bytes = queries * 4;  // of lse and of delta
  static constexpr int stage_bytes = 2 * q_bytes + 2 * row_bytes;
  static constexpr int shared_bytes = 2 * k_bytes + 2 * stage_bytes + ring_bytes;
};

template <int D>
struct QueryGradientShape {
  static constexpr bool large = D > 64;
  static constexpr int m_tiles = 2;
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int queries = warps * 16 * m_tiles;
  static constexpr int keys = large ? 32 : 64;
  static constexpr int part = 32;
  static constexpr int blocks_per_sm = 2;
  static constexpr int q_bytes = queries * Tile<D>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int stage_bytes = 2 * k_bytes;
  static constexpr int shared_bytes = 2 * q_bytes + 2 * stage_bytes + ring_bytes;
};

// dS = P (dP - delta), where a pair that is not live (P = 0) may hold anything in dP.
__device__ __forceinline__ float score_gradient(float p, float dp, float delta, bool masked) {
  const float gradient = p * (dp - delta);
  return masked && p == 0 ? 0 : gradient;
}

// --- dk and dv -------------------------------------------------------------------------------------------

// Starts the copy of one block of queries: q, dout, lse and delta, zero outside the block. The copies of lse
// and delta of a row are of one thread, which also prepares them.
template <class T, int D>
__device__ __forceinline__ void load_queries(std::uint32_t stage, const AttendBackwardParams& params,
                                             const Block& block) {
  using Shape = KeyGradientShape<D>;
  load_tile<T, D, Shape::queries, Shape::threads>(stage, params.q, block.head, block.begin, block.end);
  load_tile<T, D, Shape::queries, Shape::threads>(stage + Shape::q_bytes, params.dout, block.head,
                                                  block.begin, block.end);
  const auto row = static_cast<int>(threadIdx.x);
  if (row < Shape::queries) {
    const int compact = min(block.begin + row, block.end - 1);
    const int bytes = block.begin + row < block.end ? 4 : 0;
    const std::uint32_t at = stage + 2 * Shape::q_bytes + 4 * threadIdx.x;
    copy_4(at, row_of<const float>(params.lse, block.head, compact), bytes);
    copy_4(at + Shape::row_bytes, row_of<const float>(params.delta, block.head, compact), bytes);
  }
}

// Waits for a block, and turns lse to units of log2. A row whose lse is -inf has no gradient and may hold
// anything: it gets lse = +inf, so that P is 0, and zeros for q, dout and delta. A barrier for all threads.
template <int D>
__device__ __forceinline__ void prepare_queries(unsigned char* stage) {
  using Shape = KeyGradientShape<D>;
  auto* const lse = reinterpret_cast<float*>(stage + 2 * Shape::q_bytes);
  auto* const delta = lse + Shape::queries;
  wait_for_copies();
  int empty = 0;
  if (threadIdx.x < Shape::queries) {
    const float held = lse[threadIdx.x];
    empty = held == -infinity();
    lse[threadIdx.x] = empty ? infinity() : held * log2_e;
    if (empty) delta[threadIdx.x] = 0;
  }
  if (__syncthreads_or(empty) == 0) return;
  for (int at = static_cast<int>(threadIdx.x); at < 2 * Shape::queries * Tile<D>::chunks;
       at += Shape::threads) {
    const int row = at / Tile<D>::chunks;  // of q, then of dout
    if (lse[row % Shape::queries] == infinity()) reinterpret_cast<uint4*>(stage)[at] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
}

template <class T, int D>
__global__ void __launch_bounds__(KeyGradientShape<D>::threads, KeyGradientShape<D>::blocks_per_sm)
    key_gradient_mma_kernel(const __grid_constant__ AttendBackwardParams params) {
  using Shape = KeyGradientShape<D>;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::part / 8;
  extern __shared__ __align__(256) unsigned char key_gradient_shared[];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto kv_head = static_cast<int>(blockIdx.y);
  const int group = params.q.heads / params.k.heads;
  const WorkTile tile = params.by_k.tiles[blockIdx.x];
  const int first = tile.begin + warp * 16 * m_tiles;
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  unsigned char* const stages = key_gradient_shared + 2 * Shape::k_bytes;
  const std::uint32_t k_tile = shared_address(key_gradient_shared);
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const std::uint32_t q_tile = shared_address(stages);
  const LaneAddress<D> k_lane = address_rows<D>(k_tile, lane).down(warp * 16 * m_tiles);
  const LaneAddress<D> q_columns = address_columns<D>(q_tile, lane);
  const LaneAddress<D> q_rows = address_rows<D>(q_tile, lane);

  Sums<m_tiles, D / 8> dk, dv;
  clear(dk);
  clear(dv);

  auto* const blocks = reinterpret_cast<Block*>(stages + 2 * Shape::stage_bytes);
  if (threadIdx.x == 0) {
    blocks[0] =
        first_block<Owner::keys>(kv_head * group, kv_head * group + group, tile, params.by_k.segments);
    blocks[1] = next_block<Owner::keys, Shape::queries>(blocks[0], kv_head * group + group, tile,
                                                        params.by_k.segments);
  }
  __syncthreads();
  if (blocks[0].live()) {
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, kv_head, tile.begin, tile.end);
    load_tile<T, D, Shape::keys, Shape::threads>(v_tile, params.v, kv_head, tile.begin, tile.end);
    load_queries<T, D>(q_tile, params, blocks[0]);
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; blocks[at & 3].live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    prepare_queries<D>(stages + stage);  // everyone is done with the other stage
    const Block& next = blocks[(at + 1) & 3];
    if (next.live()) {
      load_queries<T, D>(q_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, next);
      commit_copies();
      if (threadIdx.x == 0)
        blocks[(at + 2) & 3] =
            next_block<Owner::keys, Shape::queries>(next, static_cast<int>(blockIdx.y) * group + group,
                                                    params.by_k.tiles[blockIdx.x], params.by_k.segments);
    }
#pragma unroll 1
    for (int from = 0; from < Shape::queries; from += Shape::part) {
      const Block& block = blocks[at & 3];
      const int query = block.begin + from;
      const int last = min(first + 16 * m_tiles, tile.end) - 1;
      const Cover cover = cover_of(block, first, last, query, Shape::part);
      if (cover == Cover::none) continue;
      const bool masked = cover == Cover::some;
      const auto shift = static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);
      const auto* const lse =
          reinterpret_cast<const float*>(stages + stage + 2 * Shape::q_bytes) + from + 2 * (lane & 3);

      Sums<m_tiles, n_tiles> p;
      clear(p);
      multiply_transposed<T, D>(p, k_lane.unknown(), q_columns.shifted(shift).unknown());
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, e % 2 == 0 ? -pair.x : -pair.y));
      }
      if (masked) mask_pairs(p, block, first, query, lane, 0);
      multiply_weights<T, D>(dv, p, q_rows.shifted(shift + Shape::q_bytes).unknown());

      Sums<m_tiles, n_tiles> dp;
      clear(dp);
      multiply_transposed<T, D>(dp, k_lane.shifted(Shape::k_bytes).unknown(),
                                q_columns.shifted(shift + Shape::q_bytes).unknown());
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + Shape::queries + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = score_gradient(p[m][n][e], dp[m][n][e], e % 2 == 0 ? pair.x : pair.y, masked);
      }
      multiply_weights<T, D>(dk, p, q_rows.shifted(shift).unknown());
    }
  }

  RowUpdate updates[m_tiles][2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const bool add = params.write_dk == Write::add;
      updates[m][half].write =
          row < tile.end && (!add || has_live_pair<Owner::keys>(row, tile, params.by_k.segments));
      updates[m][half].factor = 1;
      updates[m][half].old_factor = add ? 1 : 0;
    }
  write_rows(dv, params.dv, kv_head, first, updates, lane);
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
    updates[m][0].factor = updates[m][1].factor = static_cast<float>(params.scale);
  write_rows(dk, params.dk, kv_head, first, updates, lane);
}

// --- dq --------------------------------------------------------------------------------------------------

template <class T, int D>
__device__ __forceinline__ void load_keys(std::uint32_t stage, const AttendBackwardParams& params,
                                          int kv_head, const Block& block) {
  using Shape = QueryGradientShape<D>;
  load_tile<T, D, Shape::keys, Shape::threads>(stage, params.k, kv_head, block.begin, block.end);
  load_tile<T, D, Shape::keys, Shape::threads>(stage + Shape::k_bytes, params.v, kv_head, block.begin,
                                               block.end);
}

template <class T, int D>
__global__ void __launch_bounds__(QueryGradientShape<D>::threads, QueryGradientShape<D>::blocks_per_sm)
    query_gradient_mma_kernel(const __grid_constant__ AttendBackwardParams params) {
  using Shape = QueryGradientShape<D>;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::part / 8;
  extern __shared__ __align__(256) unsigned char query_gradient_shared[];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (params.q.heads / params.k.heads);
  const WorkTile tile = params.by_q.tiles[blockIdx.x];
  const int first = tile.begin + warp * 16 * m_tiles;
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(query_gradient_shared);
  const std::uint32_t k_tile = q_tile + 2 * Shape::q_bytes;
  const LaneAddress<D> q_lane = address_rows<D>(q_tile, lane).down(warp * 16 * m_tiles);
  const LaneAddress<D> k_columns = address_columns<D>(k_tile, lane);
  const LaneAddress<D> k_rows = address_rows<D>(k_tile, lane);

  Sums<m_tiles, D / 8> dq;
  clear(dq);

  // lse in units of log2; a row whose lse is -inf has no gradient and may hold anything.
  float lse[m_tiles][2], delta[m_tiles][2];
  bool some_empty = false;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = min(first + 16 * m + 8 * half + lane / 4, tile.end - 1);
      const float held = *row_of<const float>(params.lse, head, row);
      const bool empty = held == -infinity();
      some_empty = some_empty || empty;
      lse[m][half] = empty ? infinity() : held * log2_e;
      delta[m][half] = *row_of<const float>(params.delta, head, row);
    }
  some_empty = __any_sync(all_lanes, some_empty) != 0;

  auto* const blocks =
      reinterpret_cast<Block*>(query_gradient_shared + 2 * Shape::q_bytes + 2 * Shape::stage_bytes);
  if (threadIdx.x == 0) {
    blocks[0] = first_block<Owner::queries>(0, 1, tile, params.by_q.segments);
    blocks[1] = next_block<Owner::queries, Shape::keys>(blocks[0], 1, tile, params.by_q.segments);
  }
  __syncthreads();
  if (blocks[0].live()) {
    load_tile<T, D, Shape::queries, Shape::threads>(q_tile, params.q, head, tile.begin, tile.end);
    load_tile<T, D, Shape::queries, Shape::threads>(q_tile + Shape::q_bytes, params.dout, head, tile.begin,
                                                    tile.end);
    load_keys<T, D>(k_tile, params, kv_head, blocks[0]);
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; blocks[at & 3].live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    wait_for_copies();
    __syncthreads();  // the block is there, and everyone is done with the other stage
    const Block& next = blocks[(at + 1) & 3];
    if (next.live()) {
      load_keys<T, D>(k_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, kv_head, next);
      commit_copies();
      if (threadIdx.x == 0)
        blocks[(at + 2) & 3] = next_block<Owner::queries, Shape::keys>(next, 1, params.by_q.tiles[blockIdx.x],
                                                                       params.by_q.segments);
    }
#pragma unroll 1
    for (int from = 0; from < Shape::keys; from += Shape::part) {
      const Block& block = blocks[at & 3];
      const int key = block.begin + from;
      const int last = min(first + 16 * m_tiles, tile.end) - 1;
      const Cover cover = cover_of(block, first, last, key, Shape::part);
      if (cover == Cover::none) continue;
      const bool masked = cover == Cover::some || some_empty;
      const auto shift = static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);

      Sums<m_tiles, n_tiles> p, dp;
      clear(p);
      multiply_transposed<T, D>(p, q_lane.unknown(), k_columns.shifted(shift).unknown());
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, -lse[m][e / 2]));
      if (masked) {
        mask_pairs(p, block, first, key, lane, 0);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            if (lse[m][half] == infinity()) mask_row(p[m], half, 0, 0, lane, 0);
      }
      clear(dp);
      multiply_transposed<T, D>(dp, q_lane.shifted(Shape::q_bytes).unknown(),
                                k_columns.shifted(shift + Shape::k_bytes).unknown());
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = score_gradient(p[m][n][e], dp[m][n][e], delta[m][e / 2], masked);
      multiply_weights<T, D>(dq, p, k_rows.shifted(shift).unknown());
    }
  }

  RowUpdate updates[m_tiles][2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const bool add = params.write_dq == Write::add;
      updates[m][half].write =
          row < tile.end && (!add || (lse[m][half] != infinity() &&
                                      has_live_pair<Owner::queries>(row, tile, params.by_q.segments)));
      updates[m][half].factor = static_cast<float>(params.scale);
      updates[m][half].old_factor = add ? 1 : 0;
    }
  write_rows(dq, params.dq, head, first, updates, lane);
}

template <class T, int D>
void launch_attend_backward_mma(const AttendBackwardParams& params, CUstream_st* stream) {
  using Keys = KeyGradientShape<D>;
  using Queries = QueryGradientShape<D>;
  if (params.by_k.count > 0 && params.k.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_k.count), static_cast<unsigned>(params.k.heads));
    key_gradient_mma_kernel<T, D><<<grid, Keys::threads, Keys::shared_bytes, stream>>>(params);
  }
  if (params.by_q.count > 0 && params.q.heads > 0) {
    const dim3 grid(static_cast<unsigned>(params.by_q.count), static_cast<unsigned>(params.q.heads));
    query_gradient_mma_kernel<T, D><<<grid, Queries::threads, Queries::shared_bytes, stream>>>(params);
  }
}

template <class T, int D>
AttendBackwardVariant attend_backward_mma_variant(const char* name, bool (*fits)(const AttendBackward&)) {
  static const void* const kernels[] = {reinterpret_cast<const void*>(&key_gradient_mma_kernel<T, D>),
                                        reinterpret_cast<const void*>(&query_gradient_mma_kernel<T, D>),
                                        nullptr};
  static constexpr std::int64_t shared_bytes[] = {KeyGradientShape<D>::shared_bytes,
                                                  QueryGradientShape<D>::shared_bytes};
  return {name,        QueryGradientShape<D>::queries,   KeyGradientShape<D>::keys,
          fits,        launch_attend_backward_mma<T, D>, kernels,
          shared_bytes};
}

}  // namespace cplab::kernels::cuda
