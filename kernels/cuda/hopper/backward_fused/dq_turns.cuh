// Adding to dq in a fixed order, for the ordered form of the fused backward kernel: a tile of keys adds the
// piece of a block of queries to a cell when all pieces that come before it in the head's order have been
// added (kernels/work/turns.hpp). Where pieces are whole cells, a cell's first one is stored.
//
// Two threads do that, for both consumers, because what one thread does for a block must not take longer than
// a block's products. One waits for turns: run_dq_turns(). It calls a block when it is its turn, perhaps
// while the one before is being added. The other adds blocks that have been called and passes them on:
// run_dq_store_in_turn(). From one tile's addition to that of the next one it is then as far as can be: the
// addition, a fence, and the way of a count to memory and back.
//
// Nobody waits for ever. A piece waits only for tiles of the same head that come before its own
// in the head's order, and the scheduler gives these lower numbers. Numbers are drawn by thread blocks that
// run, and drawn in order. So of the tiles that are not complete the one with the lowest number has a thread
// block, which has completed its earlier tiles, and waits for nobody but itself: for its own blocks before. A
// block that has been called is added and passed without waiting for later ones, because they are called and
// added in order: the adding thread waits for both consumers' dq of one block at a time, and a consumer
// stages that of a block without the dq that the other one stages after it.
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/cuda/hopper/backward_fused/dq_store.cuh"
#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// The turns of a thread block, kept by one thread: block after block is looked up and awaited.
template <class Shape>
class DqTurns {
 public:
  static constexpr int cell_rows = dq_cell_rows(Shape::head_size);
  static_assert(cell_rows == Shape::queries, "a piece lies in one cell or two");

  __device__ __forceinline__ explicit DqTurns(const TurnList& turns) : turns_(turns) {}

  // Finds the cells of the next block and how many pieces come before it. unit: of the block's tile and
  // segment; walk: of the tile; stores: pieces that come first are stored.
  __device__ __forceinline__ void look_up(const Block& block, int unit, Walk walk, bool stores) {
    const bool upward = walk != Walk::downward;
    if (unit != unit_) begin_unit(unit);
    const int cell = (block.begin + shift_) / cell_rows;
    const int last_cell = (min(block.begin + cell_rows, block.end) - 1 + shift_) / cell_rows;
    piece_.counter = turns_.counters + (block.head * turns_.cells + cell);  // 32 bits are enough: there are
                                                                            // many bytes of q for each cell
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      before_[n] = 0;
      piece_.part[n] = Part::none;
      if (cell + n > last_cell) continue;
      const int total = turns_.total[cell + n];
      // Pieces of the tiles that are walked the way this one is, and of those listed before them.
      const int total_alike = walk == Walk::upward ? turns_.total_before_ending[cell + n] : total;
      find_run(cell + n);
      const int after = total_alike - run_.before - run_.own;  // of these, in the list behind this unit
      before_[n] = upward ? after : run_.before;
      // Of two pieces of a unit in a cell the one that is walked last: upward that which begins in the cell.
      const bool last_of_unit = run_.own == 1 || upward == (n == 0);
      const bool last_unit = upward ? run_.before == 0 && total_alike == total : after == 0;
      piece_.part[n] = last_unit && last_of_unit ? Part::last : Part::one_of_more;
    }
    piece_.stored = stores && before_[0] == 0;  // its cell is the only one
  }

  // Waits until the block looked up may be added.
  __device__ __forceinline__ void await() const {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (before_[n] != 0) wait_for_count(piece_.counter + n, before_[n]);
  }

  __device__ __forceinline__ const DqPiece& piece() const {
    return piece_;
  }

 private:
  using Part = DqPiece::Part;
  static constexpr int beyond = std::numeric_limits<int>::max();  // all cells

  __device__ __forceinline__ void begin_unit(int unit) {
    unit_ = unit;
    const TurnUnit found = turns_.units[unit];
    shift_ = found.shift;
    first_ = at_ = found.first_run;
    stop_ = turns_.units[unit + 1].first_run;
    load_run();
  }

  // Makes run_ that of a cell. It is kept, because a load takes as long as a poll.
  __device__ __forceinline__ void find_run(int cell) {
    for (; cell >= run_end_; load_run()) ++at_;
    for (; at_ > first_ && cell < run_.cell; load_run()) --at_;
  }
  __device__ __forceinline__ void load_run() {
    run_ = turns_.runs[at_];
    run_end_ = at_ + 1 < stop_ ? turns_.runs[at_ + 1].cell : beyond;
  }

  const TurnList& turns_;
  int unit_ = -1, shift_ = 0;
  int first_ = 0, stop_ = 0, at_ = 0;  // the unit's runs, and which is run_
  TurnRun run_ = {};
  int run_end_ = 0;  // the first cell beyond it
  // The block looked up.
  DqPiece piece_;
  int before_[2];
};

// One thread: calls blocks when it is their turn.
template <class Shape>
__device__ __forceinline__ void run_dq_turns(const FusedParams& params, FusedStorage<Shape>& memory) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  using Slots = PipelineIndex<Shape::dq_turn_slots>;
  DqTurns<Shape> turns(params.call.turns);
  for (int count = 0;; ++count) {
    const int info = InfoStages::stage(count), slot = Slots::stage(count);
    wait(shared_address(&memory.info_full[info]), InfoStages::parity(count));
    if ((memory.flags[info] & block_live) == 0) return;
    const Block& block = memory.found[info];
    const int tile = memory.tile_of[info];
    const WorkTile& rows = memory.tile[tile].rows;
    // Units are the tile's segments from the last to the first.
    const int unit = params.call.turns.unit_of_tile[memory.place_of_tile[tile]] + rows.first + rows.count -
                     1 - block.segment;
    turns.look_up(block, unit, memory.walk[tile], params.stores_first_dq);
    turns.await();
    // The slot is free when the block that had it has been passed.
    if (count >= Shape::dq_turn_slots)
      wait(shared_address(&memory.dq_written[slot]), Slots::parity(count - Shape::dq_turn_slots));
    memory.dq_piece[slot] = turns.piece();
    fence_view_async_global();  // TMA adds only after what was waited for
    arrive(shared_address(&memory.dq_turn[slot]));
  }
}

// The piece has been added, which this thread has seen. A cell's last piece sets the count back to 0, which
// nobody waits for any more.
__device__ __forceinline__ void pass(const DqPiece& piece) {
  fence_device_memory();
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    if (piece.part[n] == DqPiece::Part::one_of_more) add_one(piece.counter + n);
    if (piece.part[n] == DqPiece::Part::last) piece.counter[n] = 0;
  }
}

// One thread: adds the dq that both consumers have staged for a block that has been called, and waits until
// it has been written, once for both: their shared memory is not free any earlier (ptxas makes the same wait
// of wait_group.read), and consumers are less than a block apart. Then it passes the turn.
template <class Shape>
__device__ __forceinline__ void run_dq_store_in_turn(const FusedParams& params, FusedStorage<Shape>& memory) {
  using Slots = PipelineIndex<Shape::dq_turn_slots>;
  for (int count = 0;; ++count) {
    const int slot = Slots::stage(count);
    DqPiece piece;
#pragma unroll
    for (int consumer = 0; consumer < Shape::consumers; ++consumer) {
      wait(shared_address(&memory.dq_full[consumer]), count & 1);
      const int staged = memory.dq_staged[consumer];
      if (staged == dq_end) return;
      if (consumer == 0) {
        wait(shared_address(&memory.dq_turn[slot]), Slots::parity(count));
        piece = memory.dq_piece[slot];
      }
      if (staged != dq_nothing_staged)
        start_dq_write(params, memory, consumer, memory.bounds[staged], piece.stored);
    }
    tma_store_wait_until_written();
    for (int consumer = 0; consumer < Shape::consumers; ++consumer)
      arrive(shared_address(&memory.dq_empty[consumer]));
    pass(piece);
    arrive(shared_address(&memory.dq_written[slot]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
