// How dk and dv leave the kernel for all gradients: as tiles of 16 rows that the copy engine stores or adds,
// or row by row where some of the 16 must not be touched.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/fused_dq.cuh"
#include "kernels/cuda/hopper/fused_tiles.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/mma_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// 16 rows of a warp's sums, times a factor, as [column group][row][128 bytes] of fp32 with the swizzle.
template <int n_tiles>
__device__ __forceinline__ void stage_sums_of_16(unsigned char* tile, const float (&sums)[n_tiles][4],
                                                 float factor) {
  const int lane = anew(thread_index()) % 32, row = lane / 4;
  const int byte = row * 128 + (((lane % 4 / 2) ^ row) << 4) + lane % 2 * 8;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(tile + n / 4 * 2048 + half * 1024 + (byte ^ (n % 4) << 5)) =
          float2{sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor};
}

// Likewise rounded to 16 bits.
template <class T, int n_tiles>
__device__ __forceinline__ void stage_rows_of_16(unsigned char* tile, const float (&sums)[n_tiles][4],
                                                 float factor) {
  const int lane = anew(thread_index()) % 32, row = lane / 4;
  const int byte = row * 128 + (row << 4) + lane % 4 * 4;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<std::uint32_t*>(tile + n / 8 * 2048 + half * 1024 + (byte ^ (n % 8) << 4)) =
          Element<T>::pack(sums[n][2 * half] * factor, sums[n][2 * half + 1] * factor);
}

// The first key of this warp.
__device__ __forceinline__ int first_key(const KeyTile& tile) {
  return tile.rows.begin + 16 * (thread_index() / 32 - 4);
}

// The gradients of this warp's 16 keys of a tile. Nobody uses the shared memory of queries and sums any more:
// each warp has as much of it as its two tiles need. Returns when it may be used again.
template <class T, int D>
__device__ __forceinline__ void write_key_gradients(const FusedParams& params, FusedMemory<D>& memory,
                                                    const KeyTile& tile, const Sums<1, D / 8>& dk,
                                                    const Sums<1, D / 8>& dv) {
  const AttendBackwardParams& call = params.call;
  const int thread = anew(thread_index());  // registers are short: nothing of this is to be known before
  const int lane = thread % 32;
  const int first = tile.rows.begin + 16 * (thread / 32 - 4);
  const bool add = params.shares_keys || call.write_dk == Write::add;
  const auto scale = static_cast<float>(call.scale);
  const auto written = [&](int row) {
    return row < tile.rows.end && (!add || memory.live[row - tile.rows.begin] != 0);
  };
  const int row = first + lane % 16;
  if (params.key_rows != KeyRows::one_by_one &&
      __all_sync(all_lanes, row >= call.k.rows || written(row)) != 0) {
    constexpr int bytes = 16 * D * 4;
    unsigned char* const staged = memory.q[0] + (thread / 32 - 4) * 2 * bytes;
    if (params.key_rows == KeyRows::rounded) {
      stage_rows_of_16<T>(staged, dk[0], scale);
      stage_rows_of_16<T>(staged + bytes, dv[0], 1);
    } else {
      stage_sums_of_16(staged, dk[0], scale);
      stage_sums_of_16(staged + bytes, dv[0], 1);
    }
    fence_shared_writes();
    __syncwarp();
    if (lane != 0 || first >= call.k.rows) return;
    const std::uint32_t from = shared_address(staged);
    if (add) {
      add_tile(params.dk, first, 0, tile.kv_head, from);
      add_tile(params.dv, first, 0, tile.kv_head, from + bytes);
    } else {
      store_tile(params.dk, first, tile.kv_head, from);
      store_tile(params.dv, first, tile.kv_head, from + bytes);
    }
    return finish_stores();
  }
  if (params.shares_keys) {
    float* dk_rows[2] = {};
    float* dv_rows[2] = {};
    for (int half = 0; half < 2; ++half) {
      const int mine = first + 8 * half + lane / 4;
      if (!written(mine)) continue;
      dk_rows[half] = row_of<float>(call.dk, tile.kv_head, mine);
      dv_rows[half] = row_of<float>(call.dv, tile.kv_head, mine);
    }
    add_rows(dk_rows, dk[0], scale);
    return add_rows(dv_rows, dv[0], 1);
  }
  RowUpdate updates[1][2];
#pragma unroll
  for (int half = 0; half < 2; ++half)
    updates[0][half] = {
        .write = written(first + 8 * half + lane / 4), .factor = scale, .old_factor = add ? 1.0f : 0.0f};
  write_rows(dk, call.dk, tile.kv_head, first, updates, lane);
  updates[0][0].factor = updates[0][1].factor = 1;
  write_rows(dv, call.dv, tile.kv_head, first, updates, lane);
}

}  // namespace cplab::kernels::cuda::hopper
