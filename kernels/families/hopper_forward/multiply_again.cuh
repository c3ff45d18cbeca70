// The scores of a warp's 16 rows computed once more, by mma.sync, which each warp issues for itself: where a
// wgmma has been overwritten by a softmax that did not hold what it should.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// s = Q K^T of 16 rows of Q and 8 n_tiles rows of K, tiles of 128-byte rows with the 128-byte swizzle. The
// next 64 columns of Q are 64 rows further, those of K 8 n_tiles.
template <class T, int D, int n_tiles>
__device__ __forceinline__ void multiply_again(float (&s)[n_tiles][4], const unsigned char* q,
                                               const unsigned char* k) {
  constexpr int eight_rows = 8 * 128;
  const int lane = thread_index() % 32, row = lane / 4;
  const auto pair = [](const unsigned char* at) { return *reinterpret_cast<const std::uint32_t*>(at); };
#pragma unroll
  for (int n = 0; n < n_tiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) s[n][e] = 0;
#pragma unroll 1
  for (int step = 0; step < D / 16; ++step) {
    // Where the lane's two columns are, and those eight further on.
    const int low = row * 128 + ((step % 4 * 32 + lane % 4 * 4) ^ row * 16), high = low ^ 16;
    const unsigned char* const rows = q + step / 4 * 8 * eight_rows;
    const std::uint32_t a[] = {pair(rows + low), pair(rows + eight_rows + low), pair(rows + high),
                               pair(rows + eight_rows + high)};
    const unsigned char* const keys = k + step / 4 * n_tiles * eight_rows;
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      asm volatile("" ::: "memory");  // no load may move above this: registers are short
      Mma<T>::multiply(s[n], a, pair(keys + n * eight_rows + low), pair(keys + n * eight_rows + high));
    }
  }
}

}  // namespace cplab::kernels::cuda::hopper
