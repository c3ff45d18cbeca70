// The producer warpgroup of the deterministic backward kernels: a thread that loads the tiles and, for dk and
// dv, a warp that loads lse and delta of the blocks' queries.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_deterministic/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/pipeline.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// One thread: walks the segments; loads A and B once, and X and Y of every block.
template <int D, Gradient gradient>
__device__ __forceinline__ void produce(const DeterministicParams& params,
                                        DeterministicStorage<D, gradient>& memory) {
  using Shape = DeterministicShape<D, gradient>;
  using Stages = PipelineIndex<Shape::stages>;
  constexpr bool queries = gradient == Gradient::dq;
  const int group = params.call.q.heads / params.call.k.heads;
  const DeviceSegment* const segments = queries ? params.call.by_q.segments : params.call.by_k.segments;
  const int first_head = queries ? memory.head / group : memory.head * group;
  const int stop_head = queries ? first_head + 1 : first_head + group;
  Block block = first_block<owner_of<gradient>>(first_head, stop_head, memory.tile, segments);
  if (block.live()) {
    const std::uint32_t full = shared_address(&memory.owned_full);
    arrive_and_expect_tx(full, 2 * Shape::consumers * Shape::owned_bytes);
    for (int n = 0; n < Shape::consumers; ++n) {
      const int row = memory.tile.begin + 64 * n;
      tma_load(shared_address(memory.a[n]), queries ? params.q : params.k, row, memory.head, full);
      tma_load(shared_address(memory.b[n]), queries ? params.dout : params.v, row, memory.head, full);
    }
  }
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    const std::uint32_t full = shared_address(&memory.full[stage]);
    wait_as_producer(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
    memory.bounds[stage] = block;
    if constexpr (queries) {
      memory.unclean[stage] = block.end - block.begin < Shape::columns;
    } else {
      arrive(shared_address(&memory.block_known[stage]));
    }
    if (!block.live()) return arrive(full);
    arrive_and_expect_tx(full, 2 * Shape::block_bytes);
    tma_load(shared_address(memory.x[stage]), queries ? params.k : params.q, block.begin, block.head, full);
    tma_load(shared_address(memory.y[stage]), queries ? params.v : params.dout, block.begin, block.head,
             full);
    block = next_block<owner_of<gradient>, Shape::columns>(block, stop_head, memory.tile, segments);
  }
}

// The copies of lse and delta of a block of queries have arrived: prepares them for the consumers.
template <int D, Gradient gradient>
__device__ __forceinline__ void finish_lse_delta(DeterministicStorage<D, gradient>& memory, int stage) {
  using Shape = DeterministicShape<D, gradient>;
  const Block& block = memory.bounds[stage];
  bool unclean = false;
#pragma unroll
  for (int column = thread_index() % 32; column < Shape::columns; column += 32) {
    const float lse = memory.lse[stage][column];
    const bool empty = block.begin + column >= block.end || lse == -infinity();
    memory.lse[stage][column] = empty ? infinity() : lse_log2(lse);
    if (empty) memory.delta[stage][column] = 0;
    unclean |= empty;
  }
  unclean = __any_sync(all_lanes, unclean) != 0;
  if (thread_index() % 32 == 0) memory.unclean[stage] = unclean;
  arrive(shared_address(&memory.full[stage]));  // all 32 lanes arrive, each for its own writes
}

// One warp: loads lse and delta of the blocks of queries that the thread above has found. The copies of a
// block are started before the block before it is prepared, because they take longer than a block's turn.
template <int D, Gradient gradient>
__device__ __forceinline__ void load_lse_delta(const AttendBackwardParams& params,
                                               DeterministicStorage<D, gradient>& memory) {
  using Shape = DeterministicShape<D, gradient>;
  using Stages = PipelineIndex<Shape::stages>;
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    wait_as_producer(shared_address(&memory.block_known[stage]), Stages::parity(count));
    const Block& block = memory.bounds[stage];
    const bool live = block.live();
    if (live) {
#pragma unroll
      for (int column = thread_index() % 32; column < Shape::columns; column += 32) {
        const int row = block.begin + column;
        const bool inside = row < block.end;
        const int read = inside ? row : block.begin;
        cp_async_float(shared_address(&memory.lse[stage][column]),
                       row_of<const float>(params.lse, block.head, read), inside);
        cp_async_float(shared_address(&memory.delta[stage][column]),
                       row_of<const float>(params.delta, block.head, read), inside);
      }
    }
    cp_async_commit_group();
    if (count > 0) {
      cp_async_wait_group<1>();
      finish_lse_delta(memory, Stages::stage(count - 1));
    }
    if (!live) return arrive(shared_address(&memory.full[stage]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
