// Forward attention on tensor cores, online over blocks of keys (FlashAttention 2): a thread block per
// (tile of query rows, query head), its warps owning 32 rows each, so that every fragment of K and V read
// from shared memory feeds two products. K and V have one buffer each: V arrives during Q K^T, the next K
// during the softmax and P V.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/mma_walk.cuh"
#include "kernels/cuda/softmax_rows.cuh"
#include "kernels/cuda/variants.hpp"

namespace cplab::kernels::cuda {

template <int D>
struct AttendShape {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int m_tiles = 2;
  static constexpr int rows = warps * 16 * m_tiles;
  static constexpr int keys = 64;
  static constexpr int blocks_per_sm = 2;
  static constexpr int q_bytes = rows * Tile<D>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int softmax_bytes = threads * m_tiles * static_cast<int>(sizeof(SoftmaxRows));
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + static_cast<int>(sizeof(Walk)) + softmax_bytes;
};

// Turns a 16-row sum of products into weights exp(scale (s - maximum)), and moves the rows' state and `out`
// to the new maximum.
template <int n_tiles, int d_tiles>
__device__ __forceinline__ void weigh(float (&s)[n_tiles][4], float (&out)[d_tiles][4], SoftmaxRows& rows,
                                      float scale_log2) {
  float shrink[2];
  float sum[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float held = rows.maximum[half];
    float highest = held;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) highest = fmaxf(highest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    highest = row_max(highest);
    rows.maximum[half] = highest;
    const float shift = shift_of(highest, scale_log2);
    // Without fusing: exactly 1 where the maximum stays.
    shrink[half] = exp2_approx(__fmul_rn(held, scale_log2) - shift);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        s[n][e] = exp2_approx(fmaf(s[n][e], scale_log2, -shift));
        sum[half] += s[n][e];
      }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) rows.sum[half] = fmaf(rows.sum[half], shrink[half], sum[half]);
  // Late in a row the maximum seldom moves.
  if (!__any_sync(all_lanes, shrink[0] != 1 || shrink[1] != 1)) return;
#pragma unroll
  for (int d = 0; d < d_tiles; ++d)
#pragma unroll
    for (int e = 0; e < 4; ++e) out[d][e] *= shrink[e / 2];
}

template <class T, int D>
__global__ void __launch_bounds__(AttendShape<D>::threads, AttendShape<D>::blocks_per_sm)
    attend_mma_kernel(const __grid_constant__ AttendParams params) {
  using Shape = AttendShape<D>;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::keys / 8;
  extern __shared__ __align__(256) unsigned char attend_shared[];

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.work.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(attend_shared);
  const std::uint32_t k_tile = q_tile + Shape::q_bytes;
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;

  Sums<m_tiles, D / 8> out;
  clear(out);
  auto* const walk = reinterpret_cast<Walk*>(attend_shared + Shape::q_bytes + 2 * Shape::k_bytes);
  auto* const softmax = reinterpret_cast<SoftmaxRows*>(walk + 1);  // [m_tiles][threads]
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
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; walk->block(at).live(); ++at) {
    const Block& block = walk->block(at);
    const Block& next = walk->block(at + 1);
    wait_for_copies();
    __syncthreads();  // K is there; V of the block before is no longer read
    load_tile<T, D, Shape::keys, Shape::threads>(v_tile, params.v, walk->kv_head, block.begin, block.end);
    commit_copies();

    const auto hand_over = [&] {
      wait_for_copies();
      wait_for_block();  // V is there; K is no longer read
      if (!next.live()) return;
      load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, walk->kv_head, next.begin, next.end);
      commit_copies();
      if (thread_index() == 0)
        walk->block(at + 2) =
            next_block<Owner::queries, Shape::keys>(next, 1, walk->tile, params.work.segments);
    };
    const Cover cover = cover_of<16 * m_tiles, Shape::keys>(*walk, block, block.begin);
    if (cover == Cover::none) {
      hand_over();
      continue;
    }
    Sums<m_tiles, n_tiles> s;
    clear(s);
    multiply_transposed<T, D>(s, address_own_rows<D, 16 * m_tiles>(q_tile), address_columns<D>(k_tile));
    if (cover == Cover::some) mask_pairs(s, *walk, block, block.begin, -infinity());
    hand_over();
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
      weigh(s[m], out[m], softmax[m * Shape::threads + thread_index()], scale_log2);
    multiply_weights<T, D>(out, s, address_rows<D>(v_tile));
  }

  const int thread = thread_index();
  const int first = walk->tile.begin + thread / 32 * 16 * m_tiles;
  RowUpdate updates[m_tiles][2];
  finish_rows<m_tiles, Shape::threads>(params, softmax + thread, scale_log2, static_cast<int>(blockIdx.y),
                                       first, walk->tile.end, thread % 32, updates);
  write_rows(out, params.out, static_cast<int>(blockIdx.y), first, updates, thread % 32);
}

template <class T, int D>
void launch_attend_mma(const AttendParams& params, CUstream_st* stream) {
  using Shape = AttendShape<D>;
  if (params.work.count == 0 || params.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(params.work.count), static_cast<unsigned>(params.q.heads));
  attend_mma_kernel<T, D><<<grid, Shape::threads, Shape::shared_bytes, stream>>>(params);
}

template <class T, int D>
AttendVariant attend_mma_variant(const char* name, bool (*fits)(const Attend&)) {
  static const void* const kernels[] = {reinterpret_cast<const void*>(&attend_mma_kernel<T, D>), nullptr};
  return {name,
          0,
          AttendShape<D>::rows,
          {},
          fits,
          bind_parameters<launch_attend_mma<T, D>, AttendParams>,
          kernels,
          AttendShape<D>::shared_bytes};
}

}  // namespace cplab::kernels::cuda
