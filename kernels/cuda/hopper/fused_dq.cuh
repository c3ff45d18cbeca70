// What the kernel for all gradients does for dq: dS^T through shared memory, and sums of dq to where the copy
// engine adds them from, or, where not all rows of a block may be touched, by vector additions to global
// memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/fused_tiles.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/mma_rows.cuh"
#include "kernels/cuda/mma_walk.cuh"

namespace cplab::kernels::cuda::hopper {

// dS^T of 16 keys of this warp by the block's queries, as operands of products over queries, into the tile of
// 128 keys.
template <int steps>
__device__ __forceinline__ void store_slopes(unsigned char (&tile)[steps / 4][128 * 128],
                                             const std::uint32_t (&slopes)[steps][4]) {
  const int lane = thread_index() % 32;
  // Lane l says where row l % 8 of the matrix l / 8 goes: 8 or no rows down, 8 or no queries to the right.
  const int row = 16 * (thread_index() / 32 - 4) + lane / 8 % 2 * 8 + lane % 8;
  const int byte = row * 128 + ((lane / 16) << 4 ^ (row & 7) << 4);
#pragma unroll
  for (int step = 0; step < steps; ++step)
    store_matrices(shared_address(tile[step / 4]) + static_cast<std::uint32_t>(byte ^ (step % 4) << 5),
                   slopes[step]);
}

// 64 x 64 sums of dq of a warpgroup, times a factor, as the copy engine reads them. Half a warp stores at
// once, 32 bytes of each of four rows: odd rows take other columns first, so that these lie in different
// banks.
__device__ __forceinline__ void stage_sums(unsigned char* tile, const float (&sums)[8][4], float factor) {
  const int lane = thread_index() % 32;
  const int row = 16 * (thread_index() / 32 % 4) + lane / 4;  // and 8 more
  const bool odd = row % 2 != 0;
  const int byte = row * 128 + (((lane % 4 / 2) << 4) ^ (row & 7) << 4 ^ (odd ? 64 : 0)) + lane % 2 * 8;
#pragma unroll
  for (int n = 0; n < 8; n += n % 2 == 0 ? 1 : 3)  // and n + 2
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now[2], then[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float near = sums[n][2 * half + e] * factor, far = sums[n + 2][2 * half + e] * factor;
        now[e] = odd ? far : near;
        then[e] = odd ? near : far;
      }
      unsigned char* const at = tile + n / 4 * 64 * 128 + half * 8 * 128;
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4) << 5)) = float2{now[0], now[1]};
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4 + 2) << 5)) = float2{then[0], then[1]};
    }
}

// Adds factor * sums of 16 rows to a lane's two rows, lane / 4 and 8 more, from the first of these columns
// on; null: that one stays as it is. Neighbouring lanes exchange halves, so that each adds four floats in a
// row.
template <int n_tiles>
__device__ __forceinline__ void add_rows(float* const (&rows)[2], const float (&sums)[n_tiles][4],
                                         float factor) {
  const int lane = thread_index() % 32;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      const float mine[2] = {sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor};
      const float next[2] = {sums[n + 1][2 * half] * factor, sums[n + 1][2 * half + 1] * factor};
      const float x = __shfl_xor_sync(all_lanes, odd ? mine[0] : next[0], 1);
      const float y = __shfl_xor_sync(all_lanes, odd ? mine[1] : next[1], 1);
      // No branch on odd: half of the lanes would wait for the other half.
      if (rows[half] != nullptr)
        add_four(rows[half] + 4 * (lane % 4 / 2) + 8 * (odd ? n + 1 : n), odd ? x : mine[0],
                 odd ? y : mine[1], odd ? next[0] : x, odd ? next[1] : y);
    }
  }
}

// dq += scale * sums, of the block's 64 queries from `first` on and 64 columns from `column` on. Rows of
// nobody and rows without a gradient (lse +inf here) stay as they are.
__device__ __forceinline__ void add_queries(const DeviceView& dq, const Block& block, const QueryPair* pairs,
                                            int first, int column, const float (&sums)[8][4], float scale) {
  float* rows[2] = {};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + 16 * (thread_index() / 32 % 4) + 8 * half + thread_index() % 32 / 4;
    if (block.begin + query < block.end && lse_of(pairs, query) != infinity())
      rows[half] = row_of<float>(dq, block.head, block.begin + query) + column;
  }
  add_rows(rows, sums, scale);
}

}  // namespace cplab::kernels::cuda::hopper
