// What the kernel for all gradients does for dq: dS^T through shared memory, and dq by vector additions to
// global memory. One thread block adds to a row of dq once for every block of queries it walks over, in no
// order with others: the last bits differ from run to run.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/mma_walk.cuh"

namespace cplab::kernels::cuda::hopper {

// Rows of K that no query sees may hold anything, and become an operand here: 0 times NaN must not happen. Of
// 128 rows, a thread for every 64 columns of one.
template <int half_bytes, int tile_bytes>
__device__ __forceinline__ void clean_keys(unsigned char (&keys)[2][tile_bytes], const WorkTile& tile,
                                           const DeviceSegment* segments) {
  const int thread = thread_index() - warpgroup_threads;
  const int row = thread / 2, half = thread % 2;
  if (half < tile_bytes / half_bytes &&
      (tile.begin + row >= tile.end || !has_live_pair<Owner::keys>(tile.begin + row, tile, segments))) {
    auto* const pieces = reinterpret_cast<uint4*>(keys[row / 64] + half * half_bytes + row % 64 * 128);
    for (int piece = 0; piece < 8; ++piece) pieces[piece] = make_uint4(0, 0, 0, 0);
  }
  fence_shared_writes();
  sync_threads_of(1, 2 * warpgroup_threads);
}

// dS^T of 16 keys of this warp by the block's queries, as operands of products over queries, into the tile of
// 128 keys. Eight rows of four bytes a lane hit all banks once, by the swizzle.
template <int steps>
__device__ __forceinline__ void store_slopes(unsigned char (&tile)[steps / 4][128 * 128],
                                             const std::uint32_t (&slopes)[steps][4]) {
  const int lane = thread_index() % 32;
  const int first = 16 * (thread_index() / 32 - 4) + lane / 4;
#pragma unroll
  for (int step = 0; step < steps; ++step)
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = first + part % 2 * 8;
      const int byte = row * 128 + (step % 4 * 16 + part / 2 * 8 + 2 * (lane % 4)) * 2;
      *reinterpret_cast<std::uint32_t*>(tile[step / 4] + (byte ^ (row & 7) << 4)) = slopes[step][part];
    }
}

// dq += scale * sums, of the block's 64 queries from `first` on and 64 columns from `column` on. Rows of
// nobody and rows without a gradient (lse +inf here) stay as they are. Neighbouring lanes exchange halves, so
// that each adds four floats in a row.
__device__ __forceinline__ void add_queries(const DeviceView& dq, const Block& block, const float* lse,
                                            int first, int column, const float (&sums)[8][4], float scale) {
  const int lane = thread_index() % 32;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + 16 * (thread_index() / 32 % 4) + 8 * half + lane / 4;
    const bool live = block.begin + query < block.end && lse[query] != infinity();
    float* const row =
        live ? row_of<float>(dq, block.head, block.begin + query) + column + 4 * (lane % 4 / 2) : nullptr;
#pragma unroll
    for (int n = 0; n < 8; n += 2) {
      const float mine[2] = {sums[n][2 * half] * scale, sums[n][2 * half + 1] * scale};
      const float next[2] = {sums[n + 1][2 * half] * scale, sums[n + 1][2 * half + 1] * scale};
      const float x = __shfl_xor_sync(all_lanes, odd ? mine[0] : next[0], 1);
      const float y = __shfl_xor_sync(all_lanes, odd ? mine[1] : next[1], 1);
      // No branch on odd: half of the lanes would wait for the other half.
      if (live)
        add_four(row + 8 * (odd ? n + 1 : n), odd ? x : mine[0], odd ? y : mine[1], odd ? next[0] : x,
                 odd ? next[1] : y);
    }
  }
}

}  // namespace cplab::kernels::cuda::hopper
