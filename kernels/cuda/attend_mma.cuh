// Forward attention on tensor cores, online over blocks of keys (FlashAttention 2): a thread block per
// (tile of query rows, query head), its warps owning 32 rows each, so that every fragment of K and V read
// from shared memory feeds two products. K and V have one buffer each: V arrives during Q K^T, the next K
// during the softmax and P V.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/mma_walk.cuh"
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
  static constexpr int shared_bytes = q_bytes + 2 * k_bytes + ring_bytes;
};

// The running softmax of a warp's rows. Maxima are of unscaled products.
template <int m_tiles>
struct Softmax {
  float maximum[m_tiles][2];
  float sum[m_tiles][2];  // this lane's columns only

  __device__ __forceinline__ Softmax() {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        maximum[m][half] = -infinity();
        sum[m][half] = 0;
      }
  }

  // The maximum in units of log2, 0 if nothing was seen yet: then every weight is exp2(-inf) = 0.
  __device__ __forceinline__ float shift(int m, int half, float scale_log2) const {
    return maximum[m][half] == -infinity() ? 0 : maximum[m][half] * scale_log2;
  }

  // Turns products into weights exp(scale (s - maximum)) and moves sum and out to the new maximum.
  template <int n_tiles, int d_tiles>
  __device__ __forceinline__ void weigh(Sums<m_tiles, n_tiles>& s, Sums<m_tiles, d_tiles>& out,
                                        float scale_log2) {
#pragma unroll
    for (int m = 0; m < m_tiles; ++m) {
      float shrink[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float highest = maximum[m][half];
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
          highest = fmaxf(highest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        highest = row_max(highest);
        const float held = maximum[m][half] * scale_log2;
        maximum[m][half] = highest;
        const float shifted = shift(m, half, scale_log2);
        shrink[half] = exp2_approx(held - shifted);
        float total = 0;
#pragma unroll
        for (int n = 0; n < n_tiles; ++n)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; ++e) {
            s[m][n][e] = exp2_approx(fmaf(s[m][n][e], scale_log2, -shifted));
            total += s[m][n][e];
          }
        sum[m][half] = sum[m][half] * shrink[half] + total;
      }
      // Late in a row the maximum seldom moves.
      if (!__any_sync(all_lanes, shrink[0] != 1 || shrink[1] != 1)) continue;
#pragma unroll
      for (int d = 0; d < d_tiles; ++d)
#pragma unroll
        for (int e = 0; e < 4; ++e) out[m][d][e] *= shrink[e / 2];
    }
  }
};

// Both above -inf (or NaN): max + log1p(exp(min - max)).
__device__ __forceinline__ float merged_lse(float a, float b) {
  const float high = a < b ? b : a;
  const float low = a < b ? a : b;
  return high + log1pf(expf(low - high));
}

// Writes lse of a warp's rows and says what becomes of their out. Rows from tile_end on are nobody's.
template <int m_tiles>
__device__ __forceinline__ void finish_rows(const AttendParams& params, const Softmax<m_tiles>& softmax,
                                            float scale_log2, int head, int first, int tile_end, int lane,
                                            RowUpdate (&updates)[m_tiles][2]) {
  float lse[m_tiles][2];
  const bool merge = params.write == Write::merge;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + 16 * m + 8 * half + lane / 4;
      const float sum = row_sum(softmax.sum[m][half]);
      const bool empty = sum == 0;
      RowUpdate& update = updates[m][half];
      update.write = row < tile_end && !(merge && empty);
      update.factor = empty ? 0 : 1 / sum;
      lse[m][half] = empty ? -infinity() : fmaf(softmax.shift(m, half, scale_log2), ln_2, logf(sum));
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
__global__ void __launch_bounds__(AttendShape<D>::threads, AttendShape<D>::blocks_per_sm)
    attend_mma_kernel(const __grid_constant__ AttendParams params) {
  using Shape = AttendShape<D>;
  constexpr int m_tiles = Shape::m_tiles;
  constexpr int n_tiles = Shape::keys / 8;
  extern __shared__ __align__(256) unsigned char attend_shared[];

  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const auto head = static_cast<int>(blockIdx.y);
  const int kv_head = head / (params.q.heads / params.k.heads);
  const WorkTile tile = params.work.tiles[blockIdx.x];
  const int first = tile.begin + warp * 16 * m_tiles;
  const int last = min(first + 16 * m_tiles, tile.end) - 1;
  const auto scale_log2 = static_cast<float>(params.scale * 1.44269504088896340736);

  const std::uint32_t q_tile = shared_address(attend_shared);
  const std::uint32_t k_tile = q_tile + Shape::q_bytes;
  const std::uint32_t v_tile = k_tile + Shape::k_bytes;
  const LaneAddress<D> q_lane = address_rows<D>(q_tile, lane).down(warp * 16 * m_tiles);
  const LaneAddress<D> k_lane = address_columns<D>(k_tile, lane);
  const LaneAddress<D> v_lane = address_rows<D>(v_tile, lane);

  Sums<m_tiles, D / 8> out;
  clear(out);
  Softmax<m_tiles> softmax;

  // Blocks `at` and `at` + 1; thread 0 finds the next but one.
  auto* const blocks = reinterpret_cast<Block*>(attend_shared + Shape::q_bytes + 2 * Shape::k_bytes);
  if (threadIdx.x == 0) {
    blocks[0] = first_block<Owner::queries>(0, 1, tile, params.work.segments);
    blocks[1] = next_block<Owner::queries, Shape::keys>(blocks[0], 1, tile, params.work.segments);
  }
  __syncthreads();
  if (blocks[0].live()) {
    load_tile<T, D, Shape::rows, Shape::threads>(q_tile, params.q, head, tile.begin, tile.end);
    load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, kv_head, blocks[0].begin, blocks[0].end);
    commit_copies();
  }
#pragma unroll 1
  for (int at = 0; blocks[at & 3].live(); ++at) {
    const Block& block = blocks[at & 3];
    const Block& next = blocks[(at + 1) & 3];
    wait_for_copies();
    __syncthreads();  // K is there; V of the block before is no longer read
    load_tile<T, D, Shape::keys, Shape::threads>(v_tile, params.v, kv_head, block.begin, block.end);
    commit_copies();

    const auto hand_over = [&] {
      wait_for_copies();
      wait_for_block();  // V is there; K is no longer read
      if (!next.live()) return;
      load_tile<T, D, Shape::keys, Shape::threads>(k_tile, params.k, kv_head, next.begin, next.end);
      commit_copies();
      if (threadIdx.x == 0)
        blocks[(at + 2) & 3] = next_block<Owner::queries, Shape::keys>(next, 1, params.work.tiles[blockIdx.x],
                                                                       params.work.segments);
    };
    const Cover cover = cover_of(block, first, last, block.begin, Shape::keys);
    if (cover == Cover::none) {
      hand_over();
      continue;
    }
    Sums<m_tiles, n_tiles> s;
    clear(s);
    multiply_transposed<T, D>(s, q_lane.unknown(), k_lane.unknown());
    if (cover == Cover::some) mask_pairs(s, block, first, block.begin, lane, -infinity());
    hand_over();
    softmax.weigh(s, out, scale_log2);
    multiply_weights<T, D>(out, s, v_lane.unknown());
  }

  RowUpdate updates[m_tiles][2];
  finish_rows(params, softmax, scale_log2, head, first, tile.end, lane, updates);
  write_rows(out, params.out, head, first, updates, lane);
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
  return {name, AttendShape<D>::rows, fits, launch_attend_mma<T, D>, kernels, AttendShape<D>::shared_bytes};
}

}  // namespace cplab::kernels::cuda
