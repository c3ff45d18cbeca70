// How the fused backward kernel accumulates dq: dS^T goes through shared memory to the product dS K, whose
// accumulators are staged for TMA to add to memory. Where some rows of a block must not be touched, these are
// staged as -0 in turn, if that may be (adds_every_row()), and else the others are added by vector atomics.
// In turn a cell's first piece may be stored instead.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/parts/output_rows.cuh"
#include "kernels/cuda/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda::hopper {

// dS^T of this warp's 16 keys by the block's queries, packed as wgmma's operand A, to the tile of all keys.
template <int steps, int group_bytes>
__device__ __forceinline__ void store_ds(unsigned char (*tile)[group_bytes],
                                         const std::uint32_t (&ds)[steps][4]) {
  const int lane = thread_index() % 32;
  // stmatrix: lane l gives the address of row l % 8 of matrix l / 8. Matrices 1 and 3 are 8 rows further
  // down, 2 and 3 are 8 queries further right.
  const int row = 16 * (thread_index() / 32 - 4) + lane / 8 % 2 * 8 + lane % 8;
  const int byte = row * 128 + ((lane / 16) << 4 ^ (row & 7) << 4);
#pragma unroll
  for (int step = 0; step < steps; ++step)
    stmatrix(shared_address(tile[step / 4]) + static_cast<std::uint32_t>(byte ^ (step % 4) << 5), ds[step]);
}

// 64 x 64 accumulators of dq of a warpgroup, from the n_tiles given `first` on, times a factor, in the layout
// that TMA reads. Half a warp stores at once, 32 bytes of each of four rows; odd rows store other columns
// first, so that the four do not meet in the same banks.
template <int first, int n_tiles>
__device__ __forceinline__ void stage_dq(unsigned char* tile, const float (&acc)[n_tiles][4], float factor) {
  const int lane = thread_index() % 32;
  const int row = 16 * (thread_index() / 32 % 4) + lane / 4;  // and row + 8
  const bool odd = row % 2 != 0;
  const int byte = row * 128 + (((lane % 4 / 2) << 4) ^ (row & 7) << 4 ^ (odd ? 64 : 0)) + lane % 2 * 8;
#pragma unroll
  for (int n = 0; n < 8; n += n % 2 == 0 ? 1 : 3)  // this turn: n and n + 2
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now[2], then[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float near = acc[first + n][2 * half + e] * factor,
                    far = acc[first + n + 2][2 * half + e] * factor;
        now[e] = odd ? far : near;
        then[e] = odd ? near : far;
      }
      unsigned char* const at = tile + n / 4 * 64 * 128 + half * 8 * 128;
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4) << 5)) = float2{now[0], now[1]};
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4 + 2) << 5)) = float2{then[0], then[1]};
    }
}

// Of 64 rows that stage_dq() has staged, this warp's 16, of `groups` groups of 32 columns: makes those -0
// that are no queries with a gradient, by the bits given, of which these rows have those from `first` on.
// What -0 is added to stays as it is: normal numbers, infinity, and 0 of either sign.
template <int groups>
__device__ __forceinline__ void leave_rows(unsigned char* tiles, const std::uint32_t* with_gradient,
                                           int first) {
  const int begin = 16 * (thread_index() / 32 % 4);
  __syncwarp();
#pragma unroll 1
  for (int row = begin; row < begin + 16; ++row) {
    const int query = first + row;
    if ((with_gradient[query / 32] >> query % 32 & 1) != 0) continue;
#pragma unroll
    for (int group = 0; group < groups; ++group)
      reinterpret_cast<float*>(tiles + group * 64 * 128 + row * 128)[thread_index() % 32] = -0.0f;
  }
}

// Of the ordered kernel, by all lanes of a warp: waits until it is the block's turn; whether its piece is
// stored, not added. Lane 0 reads that for its warp, because it says later, for its warp, that the turn's
// slot may be written again.
template <class Shape>
__device__ __forceinline__ bool await_dq_turn(FusedStorage<Shape>& memory, int count) {
  using Turns = PipelineIndex<Shape::dq_turn_slots>;
  wait(shared_address(&memory.dq_turn[Turns::stage(count)]), Turns::parity(count));
  const bool stored = thread_index() % 32 == 0 && memory.dq_piece[Turns::stage(count)].stored;
  return __shfl_sync(all_lanes, static_cast<int>(stored), 0) != 0;
}

// Whether rows are stored and not added to; then those that are not live get 0.
struct RowStores {
  bool stored = false;
  bool live[2] = {true, true};
};

// Adds factor * accumulators of 16 rows to a lane's two rows, lane / 4 and lane / 4 + 8. rows[]: where they
// begin in memory; null leaves one as it is. Neighbouring lanes exchange halves, so that each adds four
// floats in a row. may_be_stored: unless `stores` says otherwise.
template <bool may_be_stored = false, int n_tiles>
__device__ __forceinline__ void add_rows(float* const (&rows)[2], const float (&acc)[n_tiles][4],
                                         float factor, const RowStores& stores = {}) {
  const int lane = thread_index() % 32;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      const float mine[2] = {acc[n][2 * half] * factor, acc[n][2 * half + 1] * factor};
      const float next[2] = {acc[n + 1][2 * half] * factor, acc[n + 1][2 * half + 1] * factor};
      const float x = __shfl_xor_sync(all_lanes, odd ? mine[0] : next[0], 1);
      const float y = __shfl_xor_sync(all_lanes, odd ? mine[1] : next[1], 1);
      // Selects instead of branching on `odd`, because one half of the lanes would wait for the other.
      if (rows[half] == nullptr) continue;
      float* const at = rows[half] + 4 * (lane % 4 / 2) + 8 * (odd ? n + 1 : n);
      const float4 four = {odd ? x : mine[0], odd ? y : mine[1], odd ? next[0] : x, odd ? next[1] : y};
      if (may_be_stored && stores.stored)
        *reinterpret_cast<float4*>(at) = stores.live[half] ? four : float4{0, 0, 0, 0};
      else
        red_add_v4(at, four.x, four.y, four.z, four.w);
    }
  }
}

// dq += scale * accumulators, of the block's 64 queries from `first` on and 8 n_tiles columns from `column`
// on. Rows that are no queries with a gradient, by the bits given, are left alone. `stored`, if it may be:
// dq = scale * accumulators, and 0 in the block's rows without a gradient; rows beyond it are left alone.
template <bool may_be_stored, int n_tiles>
__device__ __forceinline__ void add_queries(const DeviceView& dq, const Block& block,
                                            const std::uint32_t* with_gradient, int first, int column,
                                            const float (&acc)[n_tiles][4], float scale, bool stored) {
  float* rows[2] = {};
  RowStores stores{.stored = may_be_stored && stored};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + 16 * (thread_index() / 32 % 4) + 8 * half + thread_index() % 32 / 4;
    stores.live[half] = (with_gradient[query / 32] >> query % 32 & 1) != 0;
    if (stores.live[half] || (stores.stored && block.begin + query < block.end))
      rows[half] = row_of<float>(dq, block.head, block.begin + query) + column;
  }
  add_rows<may_be_stored>(rows, acc, scale, stores);
}

}  // namespace cplab::kernels::cuda::hopper
