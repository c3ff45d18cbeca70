// Forward attention by mma.sync (FlashAttention 2): a thread block per tile of query rows and query head.
// Each warp has 32 rows, so that a fragment of K or V read from shared memory feeds two products. K and V
// have one buffer each: V arrives during Q K^T, the next K during the softmax and P V.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/mma/parts/block_walk.cuh"
#include "kernels/cuda/mma/parts/shared_tiles.cuh"
#include "kernels/cuda/mma/parts/warp_mma.cuh"
#include "kernels/cuda/parts/max_logit.cuh"
#include "kernels/cuda/parts/output_rows.cuh"
#include "kernels/cuda/parts/softmax.cuh"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

template <int D>
struct MmaForwardShape {
  static constexpr int warps = 4;
  static constexpr int threads = 32 * warps;
  static constexpr int m_tiles = 2;
  static constexpr int rows = warps * 16 * m_tiles;
  static constexpr int keys = 64;
  static constexpr int blocks_per_sm = 2;
  static constexpr int q_bytes = rows * Tile<D>::row_bytes;
  static constexpr int k_bytes = keys * Tile<D>::row_bytes;
  static constexpr int softmax_bytes = threads * m_tiles * static_cast<int>(sizeof(SoftmaxState));
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + static_cast<int>(sizeof(Walk)) + softmax_bytes;
};

// One step of the online softmax on 16 rows: scores s become P = exp(scale (s - maximum)), and the running
// sums and `out` are rescaled to the new maximum.
template <int n_tiles, int d_tiles>
__device__ __forceinline__ void softmax_step(float (&s)[n_tiles][4], float (&out)[d_tiles][4],
                                             SoftmaxState& rows, float scale_log2) {
  float rescale[2];
  float sum[2] = {0, 0};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float held = rows.maximum[half];
    float highest = held;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) highest = fmaxf(highest, fmaxf(s[n][2 * half], s[n][2 * half + 1]));
    highest = row_max(highest);
    rows.maximum[half] = highest;
    const float shift = scaled_maximum(highest, scale_log2);
    // No fused multiply-add: the factor must be exactly 1 where the maximum stays.
    rescale[half] = exp2_approx(__fmul_rn(held, scale_log2) - shift);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 2 * half; e < 2 * half + 2; ++e) {
        s[n][e] = exp2_approx(fmaf(s[n][e], scale_log2, -shift));
        sum[half] += s[n][e];
      }
  }
#pragma unroll
  for (int half = 0; half < 2; ++half) rows.sum[half] = fmaf(rows.sum[half], rescale[half], sum[half]);
  // After the first blocks the maximum seldom moves.
  if (!__any_sync(all_lanes, rescale[0] != 1 || rescale[1] != 1)) return;
#pragma unroll
  for (int d = 0; d < d_tiles; ++d)
#pragma unroll
    for (int e = 0; e < 4; ++e) out[d][e] *= rescale[e / 2];
}

// Epilogue, first part: writes lse of a warp's rows and says how out is to be written. Rows from tile_end on
// belong to no tile and are left alone.
template <int m_tiles, int threads>
__device__ __forceinline__ void finish_rows(const AttendParams& params, const SoftmaxState* softmax,
                                            float scale_log2, int head, int first, int tile_end, int lane,
                                            RowUpdate (&updates)[m_tiles][2]) {
  float lse[m_tiles][2];
  const bool merge = params.write == Write::merge;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const float sum = row_sum(softmax[m * threads].sum[half]);
      const bool empty = sum == 0;
      RowUpdate& update = updates[m][half];
      update.write = row < tile_end && !(merge && empty);
      update.factor = empty ? 0 : 1 / sum;
      lse[m][half] =
          empty ? -infinity()
                : fmaf(scaled_maximum(softmax[m * threads].maximum[half], scale_log2), ln_2, logf(sum));
      if (!update.write || !merge) continue;
      const float held = *row_of<const float>(params.lse, head, row);
      if (held == -infinity()) continue;
      const float merged = merged_lse(held, lse[m][half]);
      update.old_factor = expf(held - merged);
      update.factor *= expf(lse[m][half] - merged);
      lse[m][half] = merged;
    }
  __syncwarp();  // four lanes have read what one of them overwrites
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (updates[m][half].write && (lane & 3) == 0)
        *row_of<float>(params.lse, head, first + 16 * m + 8 * half + lane / 4) = lse[m][half];
}

template <class T, int D>
__global__ void __launch_bounds__(MmaForwardShape<D>::threads, MmaForwardShape<D>::blocks_per_sm)
    attend_forward_mma_kernel(const __grid_constant__ AttendParams params) {
  using Shape = MmaForwardShape<D>;
  static_assert(Shape::rows == mma_tile_rows);
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::keys / 8;
  extern __shared__ __align__(256) unsigned char mma_forward_shared[];

  const auto head = static_cast<int>(blockIdx.y);
  const WorkTile tile = params.work.tiles[blockIdx.x];
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(mma_forward_shared);
  const std::uint32_t k_tile = q_tile + Shape::q_bytes;
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;

  Accumulators<m_tiles, D / 8> out;
  clear(out);
  auto* const walk = reinterpret_cast<Walk*>(mma_forward_shared + Shape::q_bytes + 2 * Shape::k_bytes);
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
    load_tile<T, D, Shape::keys, Shape::threads>(v_tile, params.v, walk->kv_head, block.begin, block.end);
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
    gemm_rs<T, D>(out, s, address_rows<D>(v_tile));
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

template <class T, int D>
void launch_forward_mma(const AttendParams& params, CUstream_st* stream) {
  using Shape = MmaForwardShape<D>;
  if (params.work.count == 0 || params.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(params.work.count), static_cast<unsigned>(params.q.heads));
  attend_forward_mma_kernel<T, D><<<grid, Shape::threads, Shape::shared_bytes, stream>>>(params);
}

template <class T, int D>
AttendKernel mma_forward_kernel() {
  static const void* const functions[] = {reinterpret_cast<const void*>(&attend_forward_mma_kernel<T, D>),
                                          nullptr};
  return {.name = mma_forward_name(Element<T>::dtype, D),
          .bind = bind_parameters<launch_forward_mma<T, D>, AttendParams>,
          .functions = functions,
          .shared_bytes = MmaForwardShape<D>::shared_bytes};
}

// Instantiated by forward.cu.in.
template <int D>
std::vector<AttendKernel> mma_forward_kernels() {
  return {mma_forward_kernel<__nv_bfloat16, D>(), mma_forward_kernel<__half, D>()};
}

}  // namespace cplab::kernels::cuda
