// Results of a warp in shared memory, as tiles of 16 rows that TMA stores or adds.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// 16 rows of a warp's accumulators, of columns 8 first .. 8 last - 1, times a factor, as a swizzled tile
// [column / 32][row][32] of fp32.
template <int first, int last, int n_tiles>
__device__ __forceinline__ void stage_fp32_of_16_rows(unsigned char* tile, const float (&acc)[n_tiles][4],
                                                      float factor) {
  const int lane = opaque(thread_index()) % 32, row = lane / 4;
  const int byte = row * 128 + (((lane % 4 / 2) ^ row) << 4) + lane % 2 * 8;
#pragma unroll
  for (int n = first; n < last; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<float2*>(tile + (n - first) / 4 * 2048 + half * 1024 + (byte ^ (n % 4) << 5)) =
          float2{acc[n][2 * half] * factor, acc[n][2 * half + 1] * factor};
}

// Likewise rounded to 16 bits: [column / 64][row][64]. adds: to the numbers that the tile holds.
template <class T, bool adds = false, int n_tiles>
__device__ __forceinline__ void stage_rounded_of_16_rows(unsigned char* tile, const float (&acc)[n_tiles][4],
                                                         float factor) {
  const int lane = opaque(thread_index()) % 32, row = lane / 4;
  const int byte = row * 128 + (row << 4) + lane % 4 * 4;
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      unsigned char* const pair = tile + n / 8 * 2048 + half * 1024 + (byte ^ (n % 8) << 4);
      float2 sum = {acc[n][2 * half] * factor, acc[n][2 * half + 1] * factor};
      if constexpr (adds) {
        const float2 old = load_pair(reinterpret_cast<const T*>(pair), true);
        sum = {old.x + sum.x, old.y + sum.y};
      }
      *reinterpret_cast<std::uint32_t*>(pair) = Element<T>::pack(sum.x, sum.y);
    }
}

}  // namespace cplab::kernels::cuda::hopper
