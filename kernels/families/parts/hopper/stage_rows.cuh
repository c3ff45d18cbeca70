// How a warp puts 16 rows of results in shared memory: as tiles that TMA stores or adds, or to store
// them itself.
#pragma once

#include <cstdint>

#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// Writes 16 rows of a warp's accumulators, columns 8 first .. 8 last - 1, times a factor, to a
// swizzled tile of fp32: [column / 32][row][32].
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

// Writes 16 rows of accumulators, times a factor and rounded, to a swizzled tile of 16 bits: [column /
// 64][row][64]. If `adds`, they are added to what the tile holds, and the sums are rounded.
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

// Stores 16 rows of a warp's accumulators, times a factor and rounded, as rows `first` and following
// of a head; those from row `stop` on are left out. A lane holds pairs of columns. Through `tile` (2
// KB, [row][64], swizzled) it gets eight columns of a row, and stores them at once.
template <class T, int n_tiles>
__device__ __forceinline__ void store_rounded_16_rows(unsigned char* tile, const float (&acc)[n_tiles][4],
                                                      float factor, const DeviceView& into, int head,
                                                      int first, int stop) {
  static_assert(n_tiles == 8, "64 columns");
  stage_rounded_of_16_rows<T>(tile, acc, factor);
  __syncwarp();
  const int lane = opaque(thread_index()) % 32, chunk = lane % 8;
  T* const to = row_of<T>(into, head, first) + 8 * chunk;
#pragma unroll
  for (int n = 0; n < 4; ++n) {
    const int row = 4 * n + lane / 8;
    if (first + row < stop && 8 * chunk < into.width)
      store_once(to + row * into.row_stride,
                 *reinterpret_cast<const uint4*>(tile + row * 128 + ((chunk ^ row) % 8 << 4)));
  }
  __syncwarp();
}

}  // namespace cplab::kernels::cuda::hopper
