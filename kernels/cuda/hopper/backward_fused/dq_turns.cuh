// Adding to dq in a fixed order, for the ordered form of the fused backward kernel: a tile of keys adds to a
// cell of 64 rows when all pieces that come before it in the work list have been added
// (kernels/work/turns.hpp).
//
// Nobody waits for ever: a piece waits only for tiles of the same head that stand before its own in the work
// list, and the scheduler gives these lower numbers. Numbers are drawn by thread blocks that run, and drawn
// in order. So of the tiles that are not complete the one with the lowest number has a thread block, which
// has completed its earlier tiles, and waits for nobody but itself: for its own segments before, whose pieces
// its two consumers add without waiting for later ones.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// The turns of one consumer, kept by one thread.
template <int D>
class DqTurns {
 public:
  __device__ __forceinline__ DqTurns(const TurnList& turns, int consumer)
      : turns_(turns), consumer_(consumer) {}

  // Waits until the consumer's piece of a block may be added: its 64 rows at head size 64, its 64 columns of
  // all rows at 128. place: of the block's tile in the work list; segment: of those of the tile.
  __device__ __forceinline__ void await(const Block& block, int place, int segment) {
    const int first = block.begin + (D == 64 ? dq_cell_rows * consumer_ : 0);
    const int end = min(first + dq_cell_rows, block.end);
    cells_ = first < end ? (end - 1) / dq_cell_rows - first / dq_cell_rows + 1 : 0;
    if (cells_ == 0) return;
    const int cell = first / dq_cell_rows;
    counter_ = turns_.counters + (std::int64_t{block.head} * turns_.cells + cell) * (D / 64) +
               (D == 64 ? 0 : consumer_);
    enter(place, segment);
#pragma unroll
    for (int n = 1; n >= 0; --n) {  // the last cell first: in this order blocks come
      if (n >= cells_) continue;
      const TurnRun run = run_of(cell + n);
      total_[n] = run.total;
      wait_for_count(counter_ + n * (D / 64), run.before);
    }
    fence_view_async_global();  // TMA adds only after what was waited for
  }

  // The piece has been added, which this thread has seen.
  __device__ __forceinline__ void pass() {
    if (cells_ == 0) return;
    release_device_memory();
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (n >= cells_) continue;
      std::int32_t* const counter = counter_ + n * (D / 64);
      const int before = atomic_add_one(counter);
      if (total_[n] != 0 && before == total_[n] - 1) *counter = 0;  // nobody waits for it any more
    }
  }

 private:
  __device__ __forceinline__ void enter(int place, int segment) {
    if (place == place_ && segment == segment_) return;
    place_ = place;
    segment_ = segment;
    const int unit = turns_.unit_of_tile[place] + segment;
    begin_ = turns_.first_run[unit];
    end_ = turns_.first_run[unit + 1];
    at_ = end_ - 1;
  }
  __device__ __forceinline__ TurnRun run_of(int cell) {
    while (at_ + 1 < end_ && turns_.runs[at_ + 1].cell <= cell) ++at_;
    while (at_ > begin_ && turns_.runs[at_].cell > cell) --at_;
    return turns_.runs[at_];
  }

  const TurnList& turns_;
  int consumer_;
  int place_ = -1, segment_ = -1;
  int begin_ = 0, end_ = 0, at_ = 0;  // runs of the unit, and the one looked at last
  std::int32_t* counter_ = nullptr;   // of the piece's first cell
  int cells_ = 0;
  int total_[2] = {0, 0};
};

// One thread for each consumer warpgroup, as run_dq_store(), in turn. It waits for the turn of a block while
// the consumer still computes it.
template <class Shape>
__device__ __forceinline__ void run_dq_store_in_turn(const FusedParams& params, FusedStorage<Shape>& memory,
                                                     int consumer) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  DqTurns<Shape::head_size> turns(params.call.turns, consumer);
  for (int count = 0;; ++count) {
    const int slot = InfoStages::stage(count);
    wait_as_producer(shared_address(&memory.info_full[slot]), InfoStages::parity(count));
    if ((memory.flags[slot] & block_live) == 0) return;
    const Block& block = memory.found[slot];
    const int tile = memory.tile_of[slot];
    turns.await(block, memory.place_of_tile[tile], block.segment - memory.tile[tile].rows.first);
    arrive(shared_address(&memory.dq_turn[consumer]));
    wait_as_producer(shared_address(&memory.dq_full[consumer]), count & 1);
    const bool staged = memory.dq_staged[consumer] != dq_nothing_staged;
    if (staged) start_dq_add(params, memory, consumer, block);
    arrive(shared_address(&memory.dq_empty[consumer]));
    if (staged) tma_store_wait_until_written();
    turns.pass();
  }
}

}  // namespace cplab::kernels::cuda::hopper
