// Adding staged dq to memory, in any order: a thread for each part.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// Starts to add a part of dq that has been staged for a block to memory, by TMA, or to store it.
template <class Shape>
__device__ __forceinline__ void start_dq_write(const FusedParams& params, FusedStorage<Shape>& memory,
                                               int part, const Block& block, bool stored = false) {
  fence_view_async_shared();  // for the writes of other threads, made visible by the barrier
  const int row = block.begin + (Shape::shares_queries ? Shape::dq_rows * part : 0),
            group = Shape::shares_queries ? 0 : 2 * part;
  const std::uint32_t from = shared_address(memory.dq_staging[part]);
  if (Shape::ordered && stored)
    tma_store(params.dq, row, block.head, from, group);
  else
    tma_reduce_add(params.dq, row, group, block.head, from);
}

// One thread for each part of dq: adds what has been staged of it to memory.
template <class Shape>
__device__ __forceinline__ void run_dq_store(const FusedParams& params, FusedStorage<Shape>& memory,
                                             int part) {
  for (int count = 0;; ++count) {
    wait(shared_address(&memory.dq_full[part]), count & 1);
    const int staged = memory.dq_staged[part];
    if (staged == dq_end) return;
    if (staged != dq_nothing_staged) {
      start_dq_write(params, memory, part, memory.bounds[staged]);
      tma_store_wait();
    }
    arrive(shared_address(&memory.dq_empty[part]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
