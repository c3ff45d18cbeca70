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
  static constexpr int shared_bytes = 2 * k_bytes + 2 * stage_bytes + static_cast<int>(sizeof(Walk));
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
  static constexpr int row_bytes = 2 * queries * 4;  // lse and delta
  static constexpr int shared_bytes =
      2 * q_bytes + 2 * stage_bytes + static_cast<int>(sizeof(Walk)) + row_bytes;
  static_assert(threads == queries);
};

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
  const int row = thread_index();
  if (row < Shape::queries) {
    const int compact = min(block.begin + row, block.end - 1);
    const int bytes = block.begin + row < block.end ? 4 : 0;
    const std::uint32_t at = stage + 2 * Shape::q_bytes + static_cast<std::uint32_t>(4 * row);
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
  bool empty = false;
  if (const int row = thread_index(); row < Shape::queries) {
    const float held = lse[row];
    empty = held == -infinity();
    lse[row] = empty ? infinity() : held * log2_e;
    if (empty) delta[row] = 0;
  }
  if (__syncthreads_or(empty) == 0) return;
  for (int at = thread_index(); at < 2 * Shape::queries * Tile<D>::chunks; at += Shape::threads) {
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

  const auto kv_head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.by_k.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  unsigned char* const stages = key_gradient_shared + 2 * Shape::k_bytes;
  const std::uint32_t k_tile = shared_address(key_gradient_shared);
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const std::uint32_t q_tile = shared_address(stages);

  Sums<m_tiles, D / 8> dk, dv;
  clear(dk);
  clear(dv);

  auto* const walk = reinterpret_cast<Walk*>(stages + 2 * Shape::stage_bytes);
  if (threadIdx.x == 0) {
    const int group = params.q.heads / params.k.heads;
    walk->tile = tile;
    walk->stop_head = kv_head * group + group;
    walk->block(0) = first_block<Owner::keys>(kv_head * group, walk->stop_head, tile, params.by_k.segments);
    walk->block(1) =
        next_block<Owner::keys, Shape::queries>(walk->block(0), walk->stop_head, tile, params.by_k.segments);
  }
  __syncthreads();
  if (walk->block(0).live()) {
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, kv_head, tile.begin, tile.end);
    load_tile<T, D, Shape::keys, Shape::threads>(v_tile, params.v, kv_head, tile.begin, tile.end);
    load_queries<T, D>(q_tile, params, walk->block(0));
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    prepare_queries<D>(stages + stage);  // everyone is done with the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_queries<T, D>(q_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, next);
      commit_copies();
      if (thread_index() == 0)
        walk->block(at + 2) =
            next_block<Owner::keys, Shape::queries>(next, walk->stop_head, walk->tile, params.by_k.segments);
    }
#pragma unroll 1
    for (int from = 0; from < Shape::queries; from += Shape::part) {
      const Block& block = walk->block(at);
      const int query = block.begin + from;
      const Cover cover = cover_of<16 * m_tiles, Shape::part>(*walk, block, query);
      if (cover == Cover::none) continue;
      const bool masked = cover == Cover::some;
      const std::uint32_t q_part = q_tile + static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);
      const auto* const lse = reinterpret_cast<const float*>(stages + stage + 2 * Shape::q_bytes) + from +
                              2 * (thread_index() & 3);

      Sums<m_tiles, n_tiles> p;
      clear(p);
      multiply_transposed<T, D>(p, address_own_rows<D, 16 * m_tiles>(k_tile), address_columns<D>(q_part));
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, e % 2 == 0 ? -pair.x : -pair.y));
      }
      if (masked) mask_pairs(p, *walk, block, query, 0);
      multiply_weights<T, D>(dv, p, address_rows<D>(q_part + Shape::q_bytes));

      Sums<m_tiles, n_tiles> dp;
      clear(dp);
      multiply_transposed<T, D>(dp, address_own_rows<D, 16 * m_tiles>(v_tile),
                                address_columns<D>(q_part + Shape::q_bytes));
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + Shape::queries + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e) p[m][n][e] *= dp[m][n][e] - (e % 2 == 0 ? pair.x : pair.y);
      }
      // Again: where a pair is not live, dP may be anything, and 0 times it too.
      if (masked) mask_pairs(p, *walk, block, query, 0);
      multiply_weights<T, D>(dk, p, address_rows<D>(q_part));
    }
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16 * m_tiles;
  RowUpdate updates[m_tiles][2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + thread % 32 / 4;
      const bool add = params.write_dk == Write::add;
      updates[m][half].write =
          row < walk->tile.end && (!add || has_live_pair<Owner::keys>(row, walk->tile, params.by_k.segments));
      updates[m][half].factor = 1;
      updates[m][half].old_factor = add ? 1 : 0;
    }
  write_rows(dv, params.dv, static_cast<int>(blockIdx.y), first, updates, thread % 32);
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
    updates[m][0].factor = updates[m][1].factor = static_cast<float>(params.scale);
  write_rows(dk, params.dk, static_cast<int>(blockIdx.y), first, updates, thread % 32);
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

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.by_q.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(query_gradient_shared);
  const std::uint32_t k_tile = q_tile + 2 * Shape::q_bytes;

  Sums<m_tiles, D / 8> dq;
  clear(dq);

  auto* const walk =
      reinterpret_cast<Walk*>(query_gradient_shared + 2 * Shape::q_bytes + 2 * Shape::stage_bytes);
  // lse in units of log2, behind it delta. A row whose lse is -inf has no gradient and may hold anything.
  auto* const row_lse = reinterpret_cast<float*>(walk + 1);
  bool empty_row = false;
  if (const int row = tile.begin + static_cast<int>(threadIdx.x); row < tile.end) {
    const float held = *row_of<const float>(params.lse, head, row);
    empty_row = held == -infinity();
    row_lse[threadIdx.x] = empty_row ? infinity() : held * log2_e;
    row_lse[Shape::queries + threadIdx.x] = *row_of<const float>(params.delta, head, row);
  }
  if (threadIdx.x == 0) {
    walk->tile = tile;
    walk->kv_head = head / (params.q.heads / params.k.heads);
    walk->block(0) = first_block<Owner::queries>(0, 1, tile, params.by_q.segments);
    walk->block(1) = next_block<Owner::queries, Shape::keys>(walk->block(0), 1, tile, params.by_q.segments);
  }
  const bool some_empty = __syncthreads_or(empty_row) != 0;
  if (walk->block(0).live()) {
    load_tile<T, D, Shape::queries, Shape::threads>(q_tile, params.q, head, tile.begin, tile.end);
    load_tile<T, D, Shape::queries, Shape::threads>(q_tile + Shape::q_bytes, params.dout, head, tile.begin,
                                                    tile.end);
    load_keys<T, D>(k_tile, params, walk->kv_head, walk->block(0));
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    wait_for_copies();
    __syncthreads();  // the block is there, and everyone is done with the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_keys<T, D>(k_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, walk->kv_head,
                      next);
      commit_copies();
      if (thread_index() == 0)
        walk->block(at + 2) =
            next_block<Owner::queries, Shape::keys>(next, 1, walk->tile, params.by_q.segments);
    }
#pragma unroll 1
    for (int from = 0; from < Shape::keys; from += Shape::part) {
      const Block& block = walk->block(at);
      const int key = block.begin + from;
      const Cover cover = cover_of<16 * m_tiles, Shape::part>(*walk, block, key);
      if (cover == Cover::none) continue;
      const bool masked = cover == Cover::some || some_empty;
      const float* const lse =
          row_lse + thread_index() / 32 * 16 * m_tiles + thread_index() % 32 / 4;  // of the lane's first row
      const std::uint32_t k_part = k_tile + static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);

      Sums<m_tiles, n_tiles> p, dp;
      const auto mask = [&] {
        mask_pairs(p, *walk, block, key, 0);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            if (lse[16 * m + 8 * half] == infinity()) mask_row(p[m], half, 0, 0, 0, 0);
      };
      clear(p);
      multiply_transposed<T, D>(p, address_own_rows<D, 16 * m_tiles>(q_tile), address_columns<D>(k_part));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, -lse[16 * m + 8 * (e / 2)]));
      if (masked) mask();
      clear(dp);
      multiply_transposed<T, D>(dp, address_own_rows<D, 16 * m_tiles>(q_tile + Shape::q_bytes),
                                address_columns<D>(k_part + Shape::k_bytes));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) p[m][n][e] *= dp[m][n][e] - lse[Shape::queries + 16 * m + 8 * (e / 2)];
      // Again: where a pair is not live, dP may be anything, and 0 times it too.
      if (masked) mask();
      multiply_weights<T, D>(dq, p, address_rows<D>(k_part));
    }
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16 * m_tiles;
  RowUpdate updates[m_tiles][2];
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + thread % 32 / 4;
      const bool add = params.write_dq == Write::add;
      updates[m][half].write =
          row < walk->tile.end &&
          (!add || (row_lse[row - walk->tile.begin] != infinity() &&
                    has_live_pair<Owner::queries>(row, walk->tile, params.by_q.segments)));
      updates[m][half].factor = static_cast<float>(params.scale);
      updates[m][half].old_factor = add ? 1 : 0;
    }
  write_rows(dq, params.dq, static_cast<int>(blockIdx.y), first, updates, thread % 32);
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
  return {name,
          0,
          true,
          QueryGradientShape<D>::queries,
          KeyGradientShape<D>::keys,
          fits,
          bind_parameters<launch_attend_backward_mma<T, D>, AttendBackwardParams>,
          kernels,
          shared_bytes};
}

}  // namespace cplab::kernels::cuda
