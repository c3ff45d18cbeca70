// dk and dv by mma.sync: a thread block owns a tile of keys and walks over blocks of queries. The transposed
// products S^T = K Q^T and dP^T = V dO^T leave P^T and dS^T in registers as the A operands of dv += P^T dO
// and dk += dS^T Q.
#pragma once

#include <cstdint>

#include "kernels/families/architectures.hpp"
#include "kernels/families/mma/parts/block_walk.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"
#include "kernels/families/mma/tiles.hpp"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda {

// Keys of D elements, values of E. Of a block's queries a warp multiplies with `part` at a time: more do not
// fit its registers. Where dk and dv of 16 keys do not fit either (split), two warps have the same keys: one
// computes P and dv, the other P, dP and dk, five products instead of four. small_tiles: fewer keys or
// queries, for architectures whose thread blocks have 99 KiB.
template <int D, int E, bool small_tiles>
struct MmaDkvShape {
  static constexpr int key_size = D, value_size = E;
  static constexpr bool split = mma_shares_keys({D, E});
  static constexpr int m_tiles = D > 64 ? 1 : 2;
  static constexpr int keys = mma_backward_rows({D, E}, small_tiles);
  static constexpr int row_warps = keys / (16 * m_tiles);
  static constexpr int warps = split ? 2 * row_warps : row_warps;
  static constexpr int threads = 32 * warps;
  static constexpr int queries = mma_backward_queries({D, E}, small_tiles);
  static constexpr int most_part = D == 96 || D == 128 ? 64 : 32;
  static constexpr int part = queries < most_part ? queries : most_part;
  static constexpr int blocks_per_sm = warps > 4 ? 1 : 2;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int v_bytes = keys * Tile<E>::row_bytes;
  static constexpr int q_bytes = queries * Tile<D>::row_bytes;
  static constexpr int dout_bytes = queries * Tile<E>::row_bytes;
  static constexpr int row_bytes = queries * 4;  // of lse and of delta
  // The next stage's tiles begin as all tiles do.
  static constexpr int stage_bytes = (q_bytes + dout_bytes + 2 * row_bytes + 511) / 512 * 512;
  static constexpr int shared_bytes = k_bytes + v_bytes + 2 * stage_bytes + static_cast<int>(sizeof(Walk));
  static constexpr Claim claim = mma_dkv_claim({D, E}, small_tiles);
  static_assert(!split || D == E);
  static_assert(threads == mma_dkv_threads({D, E}, small_tiles));

  // Which of the warps that have different keys the calling one is, or has the keys of.
  static __device__ __forceinline__ int row_warp() {
    const int warp = thread_index() / 32;
    return split ? warp % row_warps : warp;
  }
  static __device__ __forceinline__ bool has_dk() { return !split || thread_index() / 32 >= row_warps; }
};

// Starts the copies of q, dout, lse and delta of a block of queries; rows beyond it become zero. lse and
// delta of a row are copied by the thread that will prepare them.
template <class T, class Shape>
__device__ __forceinline__ void load_q_dout(std::uint32_t stage, const AttendBackwardParams& params,
                                            const Block& block) {
  load_tile<T, Shape::key_size, Shape::queries, Shape::threads>(stage, params.q, block.head, block.begin,
                                                                block.end);
  load_tile<T, Shape::value_size, Shape::queries, Shape::threads>(stage + Shape::q_bytes, params.dout,
                                                                  block.head, block.begin, block.end);
  const int row = thread_index();
  if (row < Shape::queries) {
    const int compact = min(block.begin + row, block.end - 1);
    const int bytes = block.begin + row < block.end ? 4 : 0;
    const std::uint32_t at = stage + Shape::q_bytes + Shape::dout_bytes + static_cast<std::uint32_t>(4 * row);
    cp_async_4(at, row_of<const float>(params.lse, block.head, compact), bytes);
    cp_async_4(at + Shape::row_bytes, row_of<const float>(params.delta, block.head, compact), bytes);
  }
}

// Waits for a block's copies and turns lse to units of log2. A row whose lse is -inf has no gradient and may
// hold anything, NaN too: lse becomes +inf, which makes P 0, and q, dout and delta become zero. All threads
// take part; it ends with a barrier.
template <class Shape>
__device__ __forceinline__ void prepare_queries(unsigned char* stage) {
  auto* const lse = reinterpret_cast<float*>(stage + Shape::q_bytes + Shape::dout_bytes);
  auto* const delta = lse + Shape::queries;
  cp_async_wait_all();
  bool empty = false;
  if (const int row = thread_index(); row < Shape::queries) {
    const float held = lse[row];
    empty = held == -infinity();
    lse[row] = empty ? infinity() : held * log2_e;
    if (empty) delta[row] = 0;
  }
  if (__syncthreads_or(empty) == 0) return;
  const auto clear_rows = [&](unsigned char* tile, int chunks) {
    for (int at = thread_index(); at < Shape::queries * chunks; at += Shape::threads)
      if (lse[at / chunks] == infinity()) reinterpret_cast<uint4*>(tile)[at] = make_uint4(0, 0, 0, 0);
  };
  clear_rows(stage, Tile<Shape::key_size>::chunks);
  clear_rows(stage + Shape::q_bytes, Tile<Shape::value_size>::chunks);
  __syncthreads();
}

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_sm)
    attend_backward_dkv_mma_kernel(const __grid_constant__ AttendBackwardParams params) {
  constexpr int D = Shape::key_size, E = Shape::value_size;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::part / 8;
  alignas(1024) extern __shared__ unsigned char dkv_shared[];

  const auto kv_head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.by_k.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  unsigned char* const stages = dkv_shared + Shape::k_bytes + Shape::v_bytes;
  const std::uint32_t k_tile = shared_address(dkv_shared);
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const std::uint32_t q_tile = shared_address(stages);

  Accumulators<m_tiles, D / 8> dk;  // split: or dv
  Accumulators<m_tiles, E / 8> dv;
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
    load_tile<T, E, Shape::keys, Shape::threads>(v_tile, params.v, kv_head, tile.begin, tile.end);
    load_q_dout<T, Shape>(q_tile, params, walk->block(0));
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    prepare_queries<Shape>(stages + stage);  // after its barrier nobody reads the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_q_dout<T, Shape>(q_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, next);
      cp_async_commit_group();
      if (thread_index() == 0)
        walk->block(at + 2) =
            next_block<Owner::keys, Shape::queries>(next, walk->stop_head, walk->tile, params.by_k.segments);
    }
#pragma unroll 1
    for (int from = 0; from < Shape::queries; from += Shape::part) {
      const Block& block = walk->block(at);
      const int query = block.begin + from;
      const Cover cover = cover_of<16 * m_tiles, Shape::part>(*walk, block, query, Shape::row_warp());
      if (cover == Cover::none) continue;
      const bool masked = cover == Cover::some;
      const std::uint32_t q_part = q_tile + static_cast<std::uint32_t>(stage + from * Tile<D>::row_bytes);
      const std::uint32_t dout_part =
          q_tile + static_cast<std::uint32_t>(stage + Shape::q_bytes + from * Tile<E>::row_bytes);
      const auto* const lse =
          reinterpret_cast<const float*>(stages + stage + Shape::q_bytes + Shape::dout_bytes) + from +
          2 * (thread_index() & 3);

      Accumulators<m_tiles, n_tiles> p;
      clear(p);
      gemm_ss<T, D>(p, address_own_rows<D, 16 * m_tiles>(k_tile, Shape::row_warp()),
                    address_columns<D>(q_part));
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e)
            p[m][n][e] = exp2_approx(fmaf(p[m][n][e], scale_log2, e % 2 == 0 ? -pair.x : -pair.y));
      }
      if (masked) mask_pairs(p, *walk, block, query, 0, Shape::row_warp());
      if constexpr (!Shape::split) gemm_rs<T, E>(dv, p, address_rows<E>(dout_part));

      if (Shape::has_dk()) {
        Accumulators<m_tiles, n_tiles> dp;
        clear(dp);
        gemm_ss<T, E>(dp, address_own_rows<E, 16 * m_tiles>(v_tile, Shape::row_warp()),
                      address_columns<E>(dout_part));
#pragma unroll
        for (int n = 0; n < n_tiles; ++n) {
          const float2 pair = *reinterpret_cast<const float2*>(lse + Shape::queries + 8 * n);
#pragma unroll
          for (int m = 0; m < m_tiles; ++m)
#pragma unroll
            for (int e = 0; e < 4; ++e) p[m][n][e] *= dp[m][n][e] - (e % 2 == 0 ? pair.x : pair.y);
        }
        // Once more: where a pair is not live, P is 0, but dP may be NaN.
        if (masked) mask_pairs(p, *walk, block, query, 0, Shape::row_warp());
      }
      gemm_rs<T, D>(dk, p, address_rows<D>(Shape::has_dk() ? q_part : dout_part));
    }
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + Shape::row_warp() * 16 * m_tiles;
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
  const int kv = static_cast<int>(blockIdx.y);
  if constexpr (!Shape::split) write_rows(dv, params.dv, kv, first, updates, thread % 32);
  if (!Shape::has_dk()) {
    if constexpr (Shape::split) write_rows(dk, params.dv, kv, first, updates, thread % 32);
    return;
  }
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
    updates[m][0].factor = updates[m][1].factor = static_cast<float>(params.scale);
  write_rows(dk, params.dk, kv, first, updates, thread % 32);
}

}  // namespace cplab::kernels::cuda
