// Finds out whose turn it is to add to a cell of dq, for the ordered way of summing it (dq_sum_ordered.cuh;
// kernels/families/hopper_backward/turns.hpp says what cells, pieces, units and turns are).
#pragma once

#include <cstdint>
#include <limits>

#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/segment_blocks.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda::hopper {

// How a tile walks over its queries (HeadGroups). Downward, from the last to the first: tiles in the order of
// the list do. Upward, from the first to the last: tiles in the opposite order do, which are either those
// before the list's ending (upward) or all tiles of the head (upward_as_whole_head).
enum class Walk : unsigned char { downward, upward, upward_as_whole_head };

// A block's piece of dq: it lies in one cell, or in that and the next one. What happens to the counter of
// each when it has been added: nothing, because the piece does not reach the cell; it is raised by one; or it
// is set back to 0 for the next launch, because the piece was the cell's last.
struct DqPiece {
  enum class Count { stays, grows, begins_anew };
  std::int32_t* counter;  // of the first cell
  Count count[2];
  bool stored;  // the piece is the first of its cell, and is stored instead of added
};

// Finds the turns of a thread block's pieces, block after block, and waits for them. Used by one thread.
template <class Shape>
class TurnFinder {
 public:
  static constexpr int cell_rows = dq_cell_rows(Shape::head_size);
  static_assert(cell_rows == Shape::queries, "a piece lies in one cell or two");

  __device__ __forceinline__ explicit TurnFinder(const TurnList& turns) : turns_(turns) {}

  // Finds the cells of the next block's piece, and how many pieces come before it in each. `unit` is the
  // block's tile and segment, `walk` is how the tile walks; where `stores`, pieces that come first are
  // stored.
  __device__ __forceinline__ void look_up(const Block& block, int unit, Walk walk, bool stores) {
    const bool upward = walk != Walk::downward;
    if (unit != unit_) begin_unit(unit);
    const int cell = (block.begin + shift_) / cell_rows;
    const int last_cell = (min(block.begin + cell_rows, block.end) - 1 + shift_) / cell_rows;
    // 32 bits are enough for the sum: there are many bytes of q for each cell.
    piece_.counter = turns_.counters + (block.head * turns_.cells + cell);
#pragma unroll
    for (int n = 0; n < 2; ++n) {
      before_[n] = 0;
      piece_.count[n] = Count::stays;
      if (cell + n > last_cell) continue;
      const int total = turns_.total[cell + n];
      // The cell's pieces of the tiles up to the last one that walks as this tile does.
      const int total_alike = walk == Walk::upward ? turns_.total_before_ending[cell + n] : total;
      find_run(cell + n);
      const int after = total_alike - run_.before - run_.own;  // of these, what units behind this one add
      before_[n] = upward ? after : run_.before;
      // If the unit has two pieces in the cell, upward the one that begins in the cell comes last.
      const bool last_of_unit = run_.own == 1 || upward == (n == 0);
      const bool last_unit = upward ? run_.before == 0 && total_alike == total : after == 0;
      piece_.count[n] = last_unit && last_of_unit ? Count::begins_anew : Count::grows;
    }
    piece_.stored = stores && before_[0] == 0;  // a stored piece has no second cell
  }

  // Waits until it is the turn of the piece that was looked up.
  __device__ __forceinline__ void await() const {
#pragma unroll
    for (int n = 0; n < 2; ++n)
      if (before_[n] != 0) wait_for_count(piece_.counter + n, before_[n]);
  }

  __device__ __forceinline__ const DqPiece& piece() const {
    return piece_;
  }

 private:
  using Count = DqPiece::Count;
  static constexpr int beyond = std::numeric_limits<int>::max();  // is behind all cells

  __device__ __forceinline__ void begin_unit(int unit) {
    unit_ = unit;
    const TurnUnit found = turns_.units[unit];
    shift_ = found.shift;
    first_ = at_ = found.first_run;
    stop_ = turns_.units[unit + 1].first_run;
    load_run();
  }

  // Makes run_ the unit's run that has the cell. The run is kept, because a load takes as long as a poll.
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
  int first_ = 0, stop_ = 0, at_ = 0;  // the unit's runs are first_ .. stop_ - 1, and run_ is at_
  TurnRun run_ = {};
  int run_end_ = 0;  // the first cell beyond run_
  DqPiece piece_;    // looked up last
  int before_[2];    // how many pieces come before it in its cells
};

// Passes the turn: the piece has been added, and this thread has seen that. The count that a cell's last
// piece sets back to 0 is not waited for any more.
__device__ __forceinline__ void pass(const DqPiece& piece) {
  fence_device_memory();
#pragma unroll
  for (int n = 0; n < 2; ++n) {
    if (piece.count[n] == DqPiece::Count::grows) add_one(piece.counter + n);
    if (piece.count[n] == DqPiece::Count::begins_anew) piece.counter[n] = 0;
  }
}

}  // namespace cplab::kernels::cuda::hopper
