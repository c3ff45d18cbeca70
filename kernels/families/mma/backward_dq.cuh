// dq by mma.sync: a thread block owns a tile of queries and walks over blocks of keys; P and dS are computed
// once more.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/block_walk.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"
#include "kernels/families/mma/tiles.hpp"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda {

// Keys of D elements, values of E; tiles of `rows` queries.
template <int D, int E, int rows>
struct MmaDqShape {
  static constexpr int key_size = D, value_size = E;
  static constexpr int queries = rows;
  static constexpr int m_tiles = D > 128 ? 1 : 2;
  static constexpr int warps = queries / (16 * m_tiles);
  static constexpr int threads = 32 * warps;
  static constexpr int keys = mma_dq_keys(D);
  static constexpr int part = keys < 32 ? keys : 32;
  static constexpr int blocks_per_sm = warps > 4 ? 1 : 2;
  static constexpr int q_bytes = queries * Tile<D>::row_bytes;
  static constexpr int dout_bytes = queries * Tile<E>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int v_bytes = keys * Tile<E>::row_bytes;
  static constexpr int stage_bytes = k_bytes + v_bytes;
  static constexpr int row_bytes = 2 * queries * 4;  // lse and delta
  static constexpr int shared_bytes =
      q_bytes + dout_bytes + 2 * stage_bytes + static_cast<int>(sizeof(Walk)) + row_bytes;
  static constexpr Claim claim = mma_dq_claim(D, rows);
  static_assert(queries <= threads);
};

template <class T, class Shape>
__device__ __forceinline__ void load_k_v(std::uint32_t stage, const AttendBackwardParams& params, int kv_head,
                                         const Block& block) {
  load_tile<T, Shape::key_size, Shape::keys, Shape::threads>(stage, params.k, kv_head, block.begin,
                                                             block.end);
  load_tile<T, Shape::value_size, Shape::keys, Shape::threads>(stage + Shape::k_bytes, params.v, kv_head,
                                                               block.begin, block.end);
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_sm)
    attend_backward_dq_mma_kernel(const __grid_constant__ AttendBackwardParams params) {
  constexpr int D = Shape::key_size, E = Shape::value_size;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::part / 8;
  alignas(1024) extern __shared__ unsigned char dq_shared[];

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.by_q.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(dq_shared);
  const std::uint32_t dout_tile = q_tile + Shape::q_bytes;
  const std::uint32_t k_tile = dout_tile + Shape::dout_bytes;

  Accumulators<m_tiles, D / 8> dq;
  clear(dq);

  auto* const walk =
      reinterpret_cast<Walk*>(dq_shared + Shape::q_bytes + Shape::dout_bytes + 2 * Shape::stage_bytes);
  // lse in units of log2, then delta. A row whose lse is -inf has no gradient and may hold anything.
  auto* const row_lse = reinterpret_cast<float*>(walk + 1);
  bool empty_row = false;
  if (const int row = tile.begin + static_cast<int>(threadIdx.x);
      row < tile.end && (Shape::queries == Shape::threads || threadIdx.x < Shape::queries)) {
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
    load_tile<T, E, Shape::queries, Shape::threads>(dout_tile, params.dout, head, tile.begin, tile.end);
    load_k_v<T, Shape>(k_tile, params, walk->kv_head, walk->block(0));
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    cp_async_wait_all();
    __syncthreads();  // the block has arrived, and nobody reads the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_k_v<T, Shape>(k_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params,
                         walk->kv_head, next);
      cp_async_commit_group();
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
      const std::uint32_t v_part =
          k_tile + static_cast<std::uint32_t>(stage + Shape::k_bytes + from * Tile<E>::row_bytes);

      Accumulators<m_tiles, n_tiles> p, dp;
      const auto mask = [&] {
        mask_pairs(p, *walk, block, key, 0);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int half = 0; half < 2; ++half)
            if (lse[16 * m + 8 * half] == infinity()) mask_row(p[m], half, 0, 0, 0, 0);
      };
      clear(p);
      gemm_ss<T, D>(p, address_own_rows<D, 16 * m_tiles>(q_tile), address_columns<D>(k_part));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, -lse[16 * m + 8 * (e / 2)]));
      if (masked) mask();
      clear(dp);
      gemm_ss<T, E>(dp, address_own_rows<E, 16 * m_tiles>(dout_tile), address_columns<E>(v_part));
#pragma unroll
      for (int m = 0; m < m_tiles; ++m)
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) p[m][n][e] *= dp[m][n][e] - lse[Shape::queries + 16 * m + 8 * (e / 2)];
      // Once more: where a pair is not live, P is 0, but dP may be NaN.
      if (masked) mask();
      gemm_rs<T, D>(dq, p, address_rows<D>(k_part));
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

}  // namespace cplab::kernels::cuda
