// Adding to dq in a fixed order, for the ordered form of the fused backward kernel: a tile of keys adds the
// piece of a block of queries to a cell when all pieces that come before it in the work list have been added
// (kernels/work/turns.hpp).
//
// Two threads do that, for both consumers, because what one thread does for a block must not take longer than
// a block's products. One adds: run_dq_store_in_turn(). The other waits for turns and passes them on:
// run_dq_turns(). It calls a block, and perhaps the next one, whose turn it is; a block that has been added
// it passes. A fence holds up only the second thread, and a poll only where there is nothing to pass yet.
//
// Nobody waits for ever: a piece waits only for tiles of the same head that stand before its own in the work
// list, and the scheduler gives these lower numbers. Numbers are drawn by thread blocks that run, and drawn
// in order. So of the tiles that are not complete the one with the lowest number has a thread block, which
// has completed its earlier tiles, and waits for nobody but itself: for its own blocks before. A block that
// has been called is added without waiting for later ones, because they are called and added in order: the
// adding thread waits for both consumers' dq of one block at a time, and a consumer stages that of a block
// without the dq that the other one stages after it. And it is passed without waiting for later ones, because
// whoever waits for the next turn looks at the same time whether the block has been written. What it reads of
// the next block beforehand, its bounds, the consumers need too before they stage dq of this one.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// The turns of a thread block, kept by one thread: block after block is looked up, awaited, begun and passed.
// Between begin() and pass() the next one may be looked up and awaited.
template <class Shape>
class DqTurns {
 public:
  static constexpr int cell_rows = dq_cell_rows(Shape::head_size);
  static_assert(cell_rows == Shape::queries, "a piece lies in one cell or two");

  __device__ __forceinline__ explicit DqTurns(const TurnList& turns) : turns_(turns) {}

  // Finds the cells of the next block and how many pieces come before it. place: of the block's tile in the
  // work list; segment: of those of the tile.
  __device__ __forceinline__ void look_up(const Block& block, int place, int segment) {
    const int cell = block.begin / cell_rows;
    const int last_cell = (min(block.begin + cell_rows, block.end) - 1) / cell_rows;
    next_ = block.head * turns_.cells + cell;
#pragma unroll
    for (int n = 1; n >= 0; --n) {  // the last cell first: in this order blocks come
      before_[n] = 0;
      next_part_[n] = Part::none;
      if (cell + n > last_cell) continue;
      find_run(cell + n, place, segment);
      before_[n] = run_.before;
      // Of two pieces of a unit in a cell the one that begins in it comes first, because blocks come
      // downward.
      const bool last = run_.total != 0 && (n == 1 || run_.total == run_.before + 1);
      next_part_[n] = last ? Part::last : Part::one_of_more;
    }
  }

  // Waits until the block looked up may be added.
  __device__ __forceinline__ void await() const {
#pragma unroll
    for (int n = 1; n >= 0; --n)
      if (before_[n] != 0) wait_for_count(turns_.counters + next_ + n, before_[n]);
  }

  // Likewise, but gives up when a barrier's phase is over; returns whether the block may be added.
  __device__ __forceinline__ bool await_unless_over(std::uint32_t barrier, int parity) const {
#pragma unroll
    for (int n = 1; n >= 0; --n)
      if (before_[n] != 0 &&
          !wait_for_count_unless_over(turns_.counters + next_ + n, before_[n], barrier, parity))
        return false;
    return true;
  }

  // The block looked up is the one that pass() is about.
  __device__ __forceinline__ void begin() {
    piece_ = next_;
#pragma unroll
    for (int n = 0; n < 2; ++n) part_[n] = next_part_[n];
  }

  // The block has been added, which this thread has seen. A cell's last piece sets the count back to 0, which
  // nobody waits for any more.
  __device__ __forceinline__ void pass() const {
    fence_device_memory();
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      std::int32_t* const count = turns_.counters + piece_ + n;
      if (part_[n] == Part::one_of_more) add_one(count);
      if (part_[n] == Part::last) *count = 0;
    }
  }

 private:
  enum class Part { none, one_of_more, last };                    // of a cell's pieces
  static constexpr int beyond = std::numeric_limits<int>::max();  // all cells

  // Makes run_ that of a cell. It is kept, because a load takes as long as a poll, and cells come downward,
  // of one head after the other.
  __device__ __forceinline__ void find_run(int cell, int place, int segment) {
    if (place != place_ || segment != segment_ || cell >= run_end_) {
      place_ = place;
      segment_ = segment;
      at_ = turns_.first_run[turns_.unit_of_tile[place] + segment + 1];
      run_.cell = beyond;
    }
    while (cell < run_.cell) {
      run_end_ = run_.cell;
      run_ = turns_.runs[--at_];
    }
  }

  const TurnList& turns_;
  int place_ = -1, segment_ = -1;
  int at_ = 0;  // the number of run_
  TurnRun run_ = {};
  int run_end_ = 0;  // the first cell beyond it
  // The block looked up, and the one begun: the number of its first cell's counter (32 bits are enough: there
  // are many bytes of q for each), and what it is in its cells.
  int next_ = 0, piece_ = 0;
  int before_[2];
  Part next_part_[2], part_[2];
};

// One thread: calls blocks when it is their turn, and passes it on when they have been written. While a block
// is being added it looks for the next one's turn, so that the thread that adds need not wait for that.
template <class Shape>
__device__ __forceinline__ void run_dq_turns(const FusedParams& params, FusedStorage<Shape>& memory) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  using Slots = PipelineIndex<Shape::dq_turn_slots>;
  DqTurns<Shape> turns(params.call.turns);
  const auto look_up = [&](int count) {
    const int slot = InfoStages::stage(count);
    wait(shared_address(&memory.info_full[slot]), InfoStages::parity(count));
    if ((memory.flags[slot] & block_live) == 0) return false;
    const Block& block = memory.found[slot];
    const int tile = memory.tile_of[slot];
    turns.look_up(block, memory.place_of_tile[tile], block.segment - memory.tile[tile].rows.first);
    return true;
  };
  const auto call = [&](int count) {
    fence_view_async_global();  // TMA adds only after what was waited for
    arrive(shared_address(&memory.dq_turn[Slots::stage(count)]));
  };
  bool more = look_up(0), called = false;
  for (int count = 0; more; ++count) {
    if (!called) {
      turns.await();
      call(count);
    }
    turns.begin();
    more = look_up(count + 1);
    const std::uint32_t written = shared_address(&memory.dq_written[Slots::stage(count)]);
    called = more && turns.await_unless_over(written, Slots::parity(count));
    if (called) call(count + 1);
    wait(written, Slots::parity(count));
    turns.pass();
  }
}

// One thread: adds the dq that both consumers have staged for a block that has been called, and waits until
// it has been written, once for both: their shared memory is not free any earlier (ptxas makes the same wait
// of wait_group.read), and consumers are less than a block apart.
template <class Shape>
__device__ __forceinline__ void run_dq_store_in_turn(const FusedParams& params, FusedStorage<Shape>& memory) {
  using Slots = PipelineIndex<Shape::dq_turn_slots>;
  for (int count = 0;; ++count) {
#pragma unroll
    for (int consumer = 0; consumer < Shape::consumers; ++consumer) {
      wait(shared_address(&memory.dq_full[consumer]), count & 1);
      const int staged = memory.dq_staged[consumer];
      if (staged == dq_end) return;
      if (consumer == 0) wait(shared_address(&memory.dq_turn[Slots::stage(count)]), Slots::parity(count));
      if (staged != dq_nothing_staged) start_dq_add(params, memory, consumer, memory.bounds[staged]);
    }
    tma_store_wait_until_written();
    for (int consumer = 0; consumer < Shape::consumers; ++consumer)
      arrive(shared_address(&memory.dq_empty[consumer]));
    arrive(shared_address(&memory.dq_written[Slots::stage(count)]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
