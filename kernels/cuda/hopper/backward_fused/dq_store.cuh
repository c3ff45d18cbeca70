// Adding staged dq to memory, in any order: a thread for each part, or one for both.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/dq_end.cuh"
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
    const int info = PipelineIndex<Shape::info_stages>::stage(count);
    const bool last = params.end.parts > 0 && (memory.flags[info] & block_last) != 0;
    const int patch = memory.patch_of_tile[memory.bounds[info].segment];
    arrive(shared_address(&memory.dq_empty[part]));
    if (last) count_tile(params, patch);
  }
}

// Or one thread for all parts, where another warp works beside tiles. While a part is being added it waits
// for the other one for about as long as that takes, and only then for the part to be read.
template <class Shape>
__device__ __forceinline__ void run_dq_store_of_all_parts(const FusedParams& params,
                                                          FusedStorage<Shape>& memory) {
  static_assert(Shape::dq_parts == 2);
  constexpr int addition_ns = 1000;
  bool adding = false;  // the part before is
  for (int turn = 0;; ++turn) {
    const int part = turn % 2, other = 1 - part, count = turn / 2;
    const BarrierPhase full = {shared_address(&memory.dq_full[part]), count & 1};
    if (adding && !is_over_within(full, addition_ns)) {
      tma_store_wait();
      arrive(shared_address(&memory.dq_empty[other]));
      adding = false;
    }
    if (!adding) wait(full.barrier, full.parity);
    const int staged = memory.dq_staged[part];
    if (staged >= 0) start_dq_write(params, memory, part, memory.bounds[staged]);
    const int info = PipelineIndex<Shape::info_stages>::stage(count);
    if (adding) {
      if (staged >= 0)
        tma_store_wait_but_one();
      else
        tma_store_wait();
      arrive(shared_address(&memory.dq_empty[other]));
    }
    if (staged == dq_end) return;
    adding = staged >= 0;
    const bool last = params.end.parts > 0 && (memory.flags[info] & block_last) != 0;
    if (adding && !last) continue;
    const int patch = memory.patch_of_tile[memory.bounds[info].segment];
    if (adding) tma_store_wait();
    arrive(shared_address(&memory.dq_empty[part]));
    adding = false;
    if (last) count_tile(params, patch);
  }
}

}  // namespace cplab::kernels::cuda::hopper
