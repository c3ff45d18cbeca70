// dq by chains: a thread block takes all tiles of keys that add to the same rows of dq, a sequence of a head,
// one after the other. So nobody sets dq to 0 before, because the first piece of a block of queries, a cell,
// is stored and not added; and nobody rounds it afterwards, because the thread block knows which piece is a
// cell's last. One thread stores and adds, and waits until memory has been written. A warp that has nothing
// else to do loads complete cells, which are still in the L2 cache, rounds them and stores what comes out.
//
// All cells are whole (kernels/work/chains.hpp): no row beyond a cell is written, and rows of a cell that
// have no gradient get 0.
//
// For head size 64 alone: there a part of dq is 64 rows with all of their columns.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/dq_rounding.cuh"
#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// One thread: stores or adds the dq that both consumers have staged for a block.
template <class Shape>
__device__ __forceinline__ void run_dq_store_of_chains(const FusedParams& params,
                                                       FusedStorage<Shape>& memory) {
  static_assert(Shape::head_size == 64 && Shape::shares_queries, "a part of dq has all columns of its rows");
  using InfoStages = PipelineIndex<Shape::info_stages>;
  auto& chains = memory.chains;
  int cells = 0;
  for (int n = 0; n < most_chain_cells; ++n) chains.added[n] = 0;
  for (int count = 0;; ++count) {
    const int info = InfoStages::stage(count);
    wait(shared_address(&memory.info_full[info]), InfoStages::parity(count));
    if ((memory.flags[info] & block_live) == 0) return publish_cell(memory, cells, {0, -1});
    const int tile = memory.tile_of[info];
    const int begin = memory.found[info].begin, head = memory.found[info].head;
    const DqOwner& owner = chains.owner_of_tile[tile];
    const int cell = (begin - owner.row_begin) / Shape::queries;
    unsigned char& added = chains.added[(head - memory.tile[tile].first_head) * owner.cells + cell];
    const bool first = added == 0, last = added + 1 == owner.pieces[cell];
    added = last ? 0 : added + 1;
#pragma unroll
    for (int part = 0; part < Shape::dq_parts; ++part) {
      const int row = begin + Shape::dq_rows * part;
      const std::uint32_t from = shared_address(memory.dq_staging[part]);
      wait(shared_address(&memory.dq_full[part]), count & 1);
      fence_view_async_shared();  // for the writes of other threads, made visible by the barrier
      if (first)
        tma_store(params.dq, row, head, from);
      else
        tma_reduce_add(params.dq, row, 0, head, from);
    }
    tma_store_wait_until_written();
    for (int part = 0; part < Shape::dq_parts; ++part) arrive(shared_address(&memory.dq_empty[part]));
    if (last) publish_cell(memory, cells++, {begin, head});
  }
}

}  // namespace cplab::kernels::cuda::hopper
