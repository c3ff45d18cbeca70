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

// The gradients of this warp's 16 keys of a tile.
template <int D>
class KeyGradients {
 public:
  __device__ __forceinline__ KeyGradients(const FusedParams& params, const FusedMemory<D>& memory,
                                          const KeyTile& tile)
      : params_(params),
        tile_(tile),
        thread_(anew(thread_index())),  // registers are short: nothing is to be known before
        first_(tile.rows.begin + 16 * (thread_ / 32 - 4)),
        adds_(params.shares_keys || params.call.write_dk == Write::add),
        live_(memory.live) {}

  // dk or dv: what is times which factor, and where to; `staging` has room for the sums of all warps, each of
  // which uses its part as soon as it comes to write().
  struct Part {
    const Sums<1, D / 8>& sums;
    const CUtensorMap& map;
    const DeviceView& view;
    float factor;
    unsigned char* staging;
  };

  // Writes one or both. The copy engine may still read the staging room afterwards, for lane 0 to wait for.
  template <class T, class... Parts>
  __device__ __forceinline__ void write(const Parts&... parts) const {
    const int lane = thread_ % 32, row = first_ + lane % 16;
    if (params_.key_rows != KeyRows::one_by_one &&
        __all_sync(all_lanes, row >= params_.call.k.rows || written(row)) != 0) {
      if (params_.key_rows == KeyRows::rounded)
        (stage_rows_of_16<T>(staged(parts), parts.sums[0], parts.factor), ...);
      else
        (stage_sums_of_16(staged(parts), parts.sums[0], parts.factor), ...);
      fence_shared_writes();
      __syncwarp();
      if (lane == 0 && first_ < params_.call.k.rows) (send(parts), ...);
    } else if (params_.shares_keys) {
      (add(parts, lane), ...);
    } else {
      (write_one_by_one(parts, lane), ...);
    }
  }

 private:
  __device__ __forceinline__ bool written(int row) const {
    return row < tile_.rows.end && (!adds_ || live_[row - tile_.rows.begin] != 0);
  }

  __device__ __forceinline__ unsigned char* staged(const Part& part) const {
    return part.staging + (thread_ / 32 - 4) * (16 * D * 4);
  }
  __device__ __forceinline__ void send(const Part& part) const {
    if (adds_)
      add_tile(part.map, first_, 0, tile_.kv_head, shared_address(staged(part)));
    else
      store_tile(part.map, first_, tile_.kv_head, shared_address(staged(part)));
  }
  __device__ __forceinline__ void add(const Part& part, int lane) const {
    float* rows[2] = {};
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (written(first_ + 8 * half + lane / 4))
        rows[half] = row_of<float>(part.view, tile_.kv_head, first_ + 8 * half + lane / 4);
    add_rows(rows, part.sums[0], part.factor);
  }
  __device__ __forceinline__ void write_one_by_one(const Part& part, int lane) const {
    RowUpdate updates[1][2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
      updates[0][half] = {.write = written(first_ + 8 * half + lane / 4),
                          .factor = part.factor,
                          .old_factor = adds_ ? 1.0f : 0.0f};
    write_rows(part.sums, part.view, tile_.kv_head, first_, updates, lane);
    __syncwarp();  // all have read `live`
  }

  const FusedParams& params_;
  const KeyTile& tile_;
  int thread_, first_;
  bool adds_;
  const unsigned char* live_;
};

}  // namespace cplab::kernels::cuda::hopper
