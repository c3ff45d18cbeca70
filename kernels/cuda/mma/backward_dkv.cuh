// dk and dv by mma.sync: a thread block owns a tile of keys and walks over blocks of queries. The transposed
// products S^T = K Q^T and dP^T = V dO^T leave P^T and dS^T in registers as the A operands of dv += P^T dO
// and dk += dS^T Q.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma/parts/block_walk.cuh"
#include "kernels/cuda/mma/parts/shared_tiles.cuh"
#include "kernels/cuda/mma/parts/warp_mma.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda {

// Of a block's queries a warp multiplies with `part` at a time: more do not fit its registers.
template <int D>
struct MmaDkvShape {
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

// Starts the copies of q, dout, lse and delta of a block of queries; rows beyond it become zero. lse and
// delta of a row are copied by the thread that will prepare them.
template <class T, int D>
__device__ __forceinline__ void load_q_dout(std::uint32_t stage, const AttendBackwardParams& params,
                                            const Block& block) {
  using Shape = MmaDkvShape<D>;
  load_tile<T, D, Shape::queries, Shape::threads>(stage, params.q, block.head, block.begin, block.end);
  load_tile<T, D, Shape::queries, Shape::threads>(stage + Shape::q_bytes, params.dout, block.head,
                                                  block.begin, block.end);
  const int row = thread_index();
  if (row < Shape::queries) {
    const int compact = min(block.begin + row, block.end - 1);
    const int bytes = block.begin + row < block.end ? 4 : 0;
    const std::uint32_t at = stage + 2 * Shape::q_bytes + static_cast<std::uint32_t>(4 * row);
    cp_async_4(at, row_of<const float>(params.lse, block.head, compact), bytes);
    cp_async_4(at + Shape::row_bytes, row_of<const float>(params.delta, block.head, compact), bytes);
  }
}

// Waits for a block's copies and turns lse to units of log2. A row whose lse is -inf has no gradient and may
// hold anything, NaN too: lse becomes +inf, which makes P 0, and q, dout and delta become zero. All threads
// take part; it ends with a barrier.
template <int D>
__device__ __forceinline__ void prepare_queries(unsigned char* stage) {
  using Shape = MmaDkvShape<D>;
  auto* const lse = reinterpret_cast<float*>(stage + 2 * Shape::q_bytes);
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
  for (int at = thread_index(); at < 2 * Shape::queries * Tile<D>::chunks; at += Shape::threads) {
    const int row = at / Tile<D>::chunks;  // of q, then of dout
    if (lse[row % Shape::queries] == infinity()) reinterpret_cast<uint4*>(stage)[at] = make_uint4(0, 0, 0, 0);
  }
  __syncthreads();
}

template <class T, int D>
__global__ void __launch_bounds__(MmaDkvShape<D>::threads, MmaDkvShape<D>::blocks_per_sm)
    attend_backward_dkv_mma_kernel(const __grid_constant__ AttendBackwardParams params) {
  using Shape = MmaDkvShape<D>;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::part / 8;
  extern __shared__ __align__(256) unsigned char dkv_shared[];

  const auto kv_head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.by_k.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  unsigned char* const stages = dkv_shared + 2 * Shape::k_bytes;
  const std::uint32_t k_tile = shared_address(dkv_shared);
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const std::uint32_t q_tile = shared_address(stages);

  Accumulators<m_tiles, D / 8> dk, dv;
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
    load_q_dout<T, D>(q_tile, params, walk->block(0));
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const int stage = (at & 1) * Shape::stage_bytes;
    prepare_queries<D>(stages + stage);  // after its barrier nobody reads the other stage
    const Block& next = walk->block(at + 1);
    if (next.live()) {
      load_q_dout<T, D>(q_tile + static_cast<std::uint32_t>(Shape::stage_bytes - stage), params, next);
      cp_async_commit_group();
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

      Accumulators<m_tiles, n_tiles> p;
      clear(p);
      gemm_ss<T, D>(p, address_own_rows<D, 16 * m_tiles>(k_tile), address_columns<D>(q_part));
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
      gemm_rs<T, D>(dv, p, address_rows<D>(q_part + Shape::q_bytes));

      Accumulators<m_tiles, n_tiles> dp;
      clear(dp);
      gemm_ss<T, D>(dp, address_own_rows<D, 16 * m_tiles>(v_tile),
                    address_columns<D>(q_part + Shape::q_bytes));
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) {
        const float2 pair = *reinterpret_cast<const float2*>(lse + Shape::queries + 8 * n);
#pragma unroll
        for (int m = 0; m < m_tiles; ++m)
#pragma unroll
          for (int e = 0; e < 4; ++e) p[m][n][e] *= dp[m][n][e] - (e % 2 == 0 ? pair.x : pair.y);
      }
      // Once more: where a pair is not live, P is 0, but dP may be NaN.
      if (masked) mask_pairs(p, *walk, block, query, 0);
      gemm_rs<T, D>(dk, p, address_rows<D>(q_part));
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

}  // namespace cplab::kernels::cuda
