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
#include <limits>

#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// The turns of one consumer, kept by one thread: block after block is looked up, awaited and passed. A piece
// lies in one cell or two.
template <int D>
class DqTurns {
 public:
  __device__ __forceinline__ DqTurns(const TurnList& turns, int consumer)
      : turns_(turns), consumer_(consumer) {}

  // Finds the cells of the consumer's piece of the next block, its 64 rows at head size 64, its 64 columns of
  // all rows at 128, and how many pieces come before it. place: of the block's tile in the work list;
  // segment: of those of the tile.
  __device__ __forceinline__ void look_up(const Block& block, int place, int segment) {
    const int first = block.begin + (D == 64 ? dq_cell_rows * consumer_ : 0);
    const int end = min(first + dq_cell_rows, block.end);
    const int cell = first / dq_cell_rows;
    next_ = (block.head * turns_.cells + cell) * (D / 64) + (D == 64 ? 0 : consumer_);
#pragma unroll
    for (int n = 1; n >= 0; --n) {  // the last cell first: in this order blocks come
      before_[n] = 0;
      next_ends_[n] = absent;
      seen_[n] = 0;
      if (first >= end || cell + n > (end - 1) / dq_cell_rows) continue;
      find_run(cell + n, place, segment);
      before_[n] = run_.before;
      next_ends_[n] = run_.total == run_.before + 1 ? last : run_.total;
    }
  }

  // Loads the counts of the piece looked up, for await(). pass() must come between the two.
  __device__ __forceinline__ void peek() {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (before_[n] != 0) seen_[n] = load_count(counter(next_, n));
  }

  // Waits until the piece looked up may be added. From here on it is the one that pass() is about.
  __device__ __forceinline__ void await() {
    piece_ = next_;
#pragma unroll
    for (int n = 1; n >= 0; --n) {
      ends_[n] = next_ends_[n];
      if (seen_[n] < before_[n]) wait_for_count(counter(next_, n), before_[n]);
    }
    fence_view_async_global();  // TMA adds only after what was waited for
  }

  // The piece has been added, which this thread has seen. A cell's last piece sets the count back to 0, which
  // nobody waits for any more. It is known beforehand, unless two pieces of a unit lie in the cell: they may
  // be of two consumers, and come in any order.
  __device__ __forceinline__ void pass() {
    fence_device_memory();  // even if it has no cells: for what peek() has loaded
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      if (ends_[n] == absent) continue;
      std::int32_t* const count = counter(piece_, n);
      if (ends_[n] == 0)
        add_one(count);
      else if (ends_[n] == last || atomic_add_one(count) == ends_[n] - 1)
        *count = 0;
    }
  }

 private:
  // How a piece ends a cell, if not by 0, with more to come, or by the cell's number of pieces, which this
  // may be the last of: as the last one; the piece does not lie in the cell.
  static constexpr int last = -1, absent = -2;
  static constexpr int beyond = std::numeric_limits<int>::max();  // all cells

  // Of a piece's n-th cell. 32 bits are enough for numbers of counters: there are many bytes of q for each.
  __device__ __forceinline__ std::int32_t* counter(int piece, int n) const {
    return turns_.counters + piece + n * (D / 64);
  }

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
  int consumer_;
  int place_ = -1, segment_ = -1;
  int at_ = 0;  // the number of run_
  TurnRun run_ = {};
  int run_end_ = 0;               // the first cell beyond it
  int next_ = 0, piece_ = 0;      // numbers of the first cell's counter
  int before_[2], next_ends_[2];  // of next_
  int seen_[2];                   // counts of next_
  int ends_[2];                   // of piece_
};

// One thread for each consumer warpgroup, as run_dq_store(), in turn. Everything that a turn need not wait
// for is done beside something else, because what this thread does for a block, from its turn to that of the
// next one, must not take longer than a block's products: the next block is looked up while the consumer
// still computes this one (which waits for the next one's bounds, too, before it stages dq), and its counts
// are loaded while dq is on its way to memory, with one fence for them and for passing the turn.
template <class Shape>
__device__ __forceinline__ void run_dq_store_in_turn(const FusedParams& params, FusedStorage<Shape>& memory,
                                                     int consumer) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  DqTurns<Shape::head_size> turns(params.call.turns, consumer);
  const auto look_up = [&](int count) {
    const int slot = InfoStages::stage(count);
    wait(shared_address(&memory.info_full[slot]), InfoStages::parity(count));
    if ((memory.flags[slot] & block_live) == 0) return false;
    const Block& block = memory.found[slot];
    const int tile = memory.tile_of[slot];
    turns.look_up(block, memory.place_of_tile[tile], block.segment - memory.tile[tile].rows.first);
    return true;
  };
  bool more = look_up(0);
  for (int count = 0; more; ++count) {
    turns.await();
    arrive(shared_address(&memory.dq_turn[consumer]));
    more = look_up(count + 1);
    wait(shared_address(&memory.dq_full[consumer]), count & 1);
    const bool staged = memory.dq_staged[consumer] != dq_nothing_staged;
    if (staged) start_dq_add(params, memory, consumer, memory.found[InfoStages::stage(count)]);
    arrive(shared_address(&memory.dq_empty[consumer]));
    if (more) turns.peek();
    if (staged) tma_store_wait_until_written();
    turns.pass();
  }
}

}  // namespace cplab::kernels::cuda::hopper
