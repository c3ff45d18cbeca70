// Forward attention by mma.sync (FlashAttention 2): a thread block per tile of query rows and query head.
// Each warp has 32 rows, so that a fragment of K or V read from shared memory feeds two products; 16 where
// the accumulators of values beyond 128 columns leave no registers for more. K and V have one buffer each: V
// arrives during Q K^T, the next K during the softmax and P V.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/block_walk.cuh"
#include "kernels/families/mma/parts/online_softmax.cuh"
#include "kernels/families/mma/parts/shared_tiles.cuh"
#include "kernels/families/mma/parts/warp_mma.cuh"
#include "kernels/families/mma/tiles.hpp"
#include "kernels/families/parts/max_logit.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda {

// Keys of D elements, values of E.
template <int D, int E>
struct MmaForwardShape {
  static constexpr int key_size = D, value_size = E;
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int rows = mma_forward_rows(E);
  static constexpr int m_tiles = rows / (16 * warps);
  static constexpr int keys = 64;
  static constexpr int blocks_per_sm = 2;
  static constexpr int q_bytes = rows * Tile<D>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int v_bytes = keys * Tile<E>::row_bytes;
  static constexpr int softmax_bytes = threads * m_tiles * static_cast<int>(sizeof(SoftmaxState));
  static constexpr int shared_bytes =
      q_bytes + k_bytes + v_bytes + static_cast<int>(sizeof(Walk)) + softmax_bytes;
};

template <class T, class Shape>
__global__ void __launch_bounds__(Shape::threads, Shape::blocks_per_sm)
    attend_forward_mma_kernel(const __grid_constant__ AttendParams params) {
  constexpr int D = Shape::key_size, E = Shape::value_size;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::keys / 8;
  alignas(1024) extern __shared__ unsigned char mma_forward_shared[];

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.work.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(mma_forward_shared);
  const std::uint32_t k_tile = q_tile + Shape::q_bytes;
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;

  Accumulators<m_tiles, E / 8> out;
  clear(out);
  auto* const walk =
      reinterpret_cast<Walk*>(mma_forward_shared + Shape::q_bytes + Shape::k_bytes + Shape::v_bytes);
  auto* const softmax = reinterpret_cast<SoftmaxState*>(walk + 1);  // [m_tiles][threads]
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
    softmax[m * Shape::threads + thread_index()] = {{-infinity(), -infinity()}, {0, 0}};
  if (threadIdx.x == 0) {
    walk->tile = tile;
    walk->kv_head = head / (params.q.heads / params.k.heads);
    walk->block(0) = first_block<Owner::queries>(0, 1, tile, params.work.segments);
    walk->block(1) = next_block<Owner::queries, Shape::keys>(walk->block(0), 1, tile, params.work.segments);
  }
  __syncthreads();
  if (walk->block(0).live()) {
    load_tile<T, D, Shape::rows, Shape::threads>(q_tile, params.q, head, tile.begin, tile.end);
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, walk->kv_head, walk->block(0).begin,
                                                 walk->block(0).end);
    cp_async_commit_group();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const Block& block = walk->block(at);
    const Block& next = walk->block(at + 1);
    cp_async_wait_all();
    __syncthreads();  // K has arrived; V of the block before is no longer read
    load_tile<T, E, Shape::keys, Shape::threads>(v_tile, params.v, walk->kv_head, block.begin, block.end);
    cp_async_commit_group();

    const auto start_next_k = [&] {
      cp_async_wait_all();
      barrier_sync_block();  // V has arrived; K is no longer read
      if (!next.live()) return;
      load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, walk->kv_head, next.begin, next.end);
      cp_async_commit_group();
      if (thread_index() == 0)
        walk->block(at + 2) =
            next_block<Owner::queries, Shape::keys>(next, 1, walk->tile, params.work.segments);
    };
    const Cover cover = cover_of<16 * m_tiles, Shape::keys>(*walk, block, block.begin);
    if (cover == Cover::none) {
      start_next_k();
      continue;
    }
    Accumulators<m_tiles, n_tiles> s;
    clear(s);
    gemm_ss<T, D>(s, address_own_rows<D, 16 * m_tiles>(q_tile), address_columns<D>(k_tile));
    if (cover == Cover::some) mask_pairs(s, *walk, block, block.begin, -infinity());
    start_next_k();
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      softmax_step(s[m], out[m], softmax[m * Shape::threads + thread_index()], scale_log2);
    gemm_rs<T, E>(out, s, address_rows<E>(v_tile));
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16 * m_tiles;
  raise_max_logit<m_tiles>(
      params, static_cast<int>(blockIdx.y), first, walk->tile.end, thread % 32,
      [&](int m, int half) { return softmax[m * Shape::threads + thread].maximum[half]; });
  RowUpdate updates[m_tiles][2];
  finish_rows<m_tiles, Shape::threads>(params, softmax + thread, scale_log2, static_cast<int>(blockIdx.y),
                                       first, walk->tile.end, thread % 32, updates);
  write_rows(out, params.out, static_cast<int>(blockIdx.y), first, updates, thread % 32);
}

}  // namespace cplab::kernels::cuda
