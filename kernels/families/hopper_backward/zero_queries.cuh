// Zeroes queries that have no gradient, and keys that no query sees, in the shared memory of the fused
// backward kernel.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// Zeroes 64 columns of a row of a tile in shared memory.
__device__ __forceinline__ void zero_row_of_64(unsigned char* row) {
  auto* const chunks = reinterpret_cast<uint4*>(row);
  for (int chunk = 0; chunk < 8; ++chunk) chunks[chunk] = make_uint4(0, 0, 0, 0);
}

// Zeroes rows of Q and dO that lie beyond the block or belong to queries without a gradient: they may hold
// NaN, and NaN times P = 0 is NaN.
template <class Shape>
__device__ __forceinline__ void zero_queries_without_gradient(FusedStorage<Shape>& memory, int stage,
                                                              const LseDeltaPair* lse_delta) {
  constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
#pragma unroll 1
  for (int n = thread_index() - warpgroup_threads; n < Shape::query_bytes / 16; n += consumer_threads) {
    const int row = n / 8 % Shape::queries;  // a row of 64 columns is eight times 16 bytes
    if (lse_of(lse_delta, row) != infinity()) continue;
    reinterpret_cast<uint4*>(memory.q[stage])[n] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(memory.dout[stage])[n] = make_uint4(0, 0, 0, 0);
  }
  fence_view_async_shared();
  named_barrier_sync(1, consumer_threads);
}

}  // namespace cplab::kernels::cuda::hopper
