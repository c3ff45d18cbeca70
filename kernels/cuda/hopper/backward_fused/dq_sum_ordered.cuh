// Summing dq in a fixed order, which gives the same bits in every run (FlashAttention's deterministic
// backward): a tile of keys adds its piece of dq of a block of queries to a cell of the dQ accumulator when
// all pieces that come before it have been added (kernels/work/turns.hpp). A counter for each cell, a
// semaphore in FlashAttention's words, says how many have been. Where pieces are whole cells, a cell's first
// piece is stored, and nobody sets dq to 0 before. dk and dv of a key head whose query heads have thread
// blocks of their own are added in the order of heads, likewise by counters.
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
#include <string>

#include "kernels/cuda/hopper/backward_fused/dq_accumulate.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/backward_fused/tile_source.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/work/fits.hpp"
#include "kernels/work/turns.hpp"
#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda::hopper {

// How a tile's queries are walked over: downward, as listed; upward, the other way, before the list's ending;
// or upward as all tiles of its head (HeadGroups).
enum class Walk : unsigned char { downward, upward, upward_as_whole_head };

// What adding a block's piece of dq does to its cell's counter, and to the next one's.
struct DqPiece {
  enum class Part { none, one_of_more, last };  // of a cell's pieces
  std::int32_t* counter;
  Part part[2];
  bool stored;  // the piece is a cell's first: not added to what is there
};

// The order in which the launch takes heads.
struct OrderOfHeads {
  // In that order, the heads before upward_heads are walked upward, and of the others the tiles before
  // upward_tiles (HeadGroups).
  int upward_heads = 0, upward_tiles = 0;
  FastDivmod of_key_heads;  // by how many there are: the launch takes the first query head of each, then the
                            // second ones
  int heads_of_key_head = 1;  // query heads
};

// Some tiles are walked upward, and taken from the list's last to its first; the others are walked downward,
// as listed. All tiles are numbered by the counter, the first ones too: a thread block that does not run yet
// has none that others could wait for.
template <class Shape>
class OrderedTiles : public TileSource<Shape> {
 public:
  __device__ __forceinline__ OrderedTiles(const typename Shape::Params& params, FusedStorage<Shape>& memory)
      : TileSource<Shape>(params, memory, -1) {}

  __device__ __forceinline__ void start() const {}  // the launch before may still use the counter
  template <class Producer>
  __device__ __forceinline__ void run(Producer& producer) {
    if (!next()) return producer.publish_nothing();
    enter(0);
    producer.walk_tiles();
  }
  // As in TileSource::draw(), the last of all draws sets the counter back to 0.
  __device__ __forceinline__ bool next() {
    const auto& params = this->params_;
    this->drawn_ = atomic_add_one(params.counter);
    if (this->drawn_ == params.scheduler.tiles + params.blocks - 1) *params.counter = 0;
    return this->drawn_ < params.scheduler.tiles;
  }
  __device__ __forceinline__ void enter(int number) {
    const auto& params = this->params_;
    const OrderOfHeads& order = params.dq_sum.heads;
    int index, unit;
    params.scheduler.find(this->drawn_, index, unit);
    const bool whole_head = unit < order.upward_heads;
    const int stop = whole_head ? params.call.by_k.live : order.upward_tiles;  // of tiles walked upward
    ordered().walk[number] = index >= stop ? Walk::downward
                             : whole_head  ? Walk::upward_as_whole_head
                                           : Walk::upward;
    if (index < stop) index = stop - 1 - index;
    ordered().place_of_tile[number] = index;
    this->enter_rows(number, index);
    this->enter_heads(number, first_head_of(unit));
  }

  __device__ __forceinline__ Block first_block(int number) const {
    if (ordered().walk[number] != Walk::downward) return TileSource<Shape>::first_block(number);
    const KeyTile& tile = this->memory_.tile[number];
    return first_block_downward<Shape::queries>(tile.first_head, tile.stop_head, tile.rows, this->segments());
  }
  __device__ __forceinline__ Block block_after(const Block& block, int number) const {
    if (ordered().walk[number] != Walk::downward) return TileSource<Shape>::block_after(block, number);
    const KeyTile& tile = this->memory_.tile[number];
    return next_block_downward<Shape::queries>(block, tile.stop_head, tile.rows, this->segments());
  }

 private:
  __device__ __forceinline__ auto& ordered() const { return this->memory_.dq_sum; }

  // The query heads of a key head are taken as far apart as can be: those that add to the same dk and dv
  // would wait for each other.
  __device__ __forceinline__ int first_head_of(int unit) const {
    const auto& params = this->params_;
    if (!params.splits_query_heads) return unit * params.heads_of_tile;
    const OrderOfHeads& order = params.dq_sum.heads;
    const int place = order.of_key_heads.quotient(unit), kv_head = order.of_key_heads.remainder(unit, place);
    return kv_head * order.heads_of_key_head + place;
  }
};

// The turns of a thread block, kept by one thread: block after block is looked up and awaited.
template <class Shape>
class TurnFinder {
 public:
  static constexpr int cell_rows = dq_cell_rows(Shape::head_size);
  static_assert(cell_rows == Shape::queries, "a piece lies in one cell or two");

  __device__ __forceinline__ explicit TurnFinder(const TurnList& turns) : turns_(turns) {}

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

struct OrderedDqSum {
  // --- host side ----------------------------------------------------------------------------------------
  struct Params {
    OrderOfHeads heads;
    bool stores_first = false;  // a cell's first piece of dq is stored, not added
  };
  static constexpr bool always_draws = true;  // the scheduler's counter numbers the first tiles too
  static constexpr bool blocks_wait = true;   // thread blocks, for others

  static std::string kernel_name(DType dtype, int head_size, int) {
    return hopper_backward_ordered_name(dtype, head_size);
  }
  static int scheduled_tiles(const AttendBackwardParams& call) { return call.by_k.live; }
  static int heads_together(const AttendBackwardParams& call, int units) {
    const int fitting = fused_heads_per_group(units, call.q.heads, call.q, call.by_k.rows_together,
                                              order_of_turns(call.turns.even, call.turns.full));
    if (!splits_query_heads(call)) return fitting;
    return heads_that_take_turns(
        fitting, call.k.heads, call.by_k.live,
        queueing_tiles(call.turns.full, call.by_k.rows_together, hopper_backward_tile_rows),
        call.multiprocessors);
  }
  // `units`: how often the launch takes a tile, each time for other heads; at most `together` of them are
  // taken side by side, which becomes how many are.
  static Params params(const AttendBackwardParams& call, int units, int& together) {
    const HeadGroups groups = head_groups(units, together, call.turns.even, call.by_k.ending);
    together = groups.heads;
    return {.heads = {.upward_heads = groups.opposite_heads,
                      .upward_tiles = groups.opposite_tiles,
                      .of_key_heads = FastDivmod(call.k.heads),
                      .heads_of_key_head = call.q.heads / call.k.heads},
            .stores_first = stores_first_dq(call)};
  }
  static bool adds_every_row(const AttendBackwardParams& call) { return hopper::adds_every_row(call); }
  static bool stores_first(const AttendBackwardParams& call) { return stores_first_dq(call); }

  // --- shared memory and barriers -----------------------------------------------------------------------
  static constexpr int slots = 2;  // for a block that is being added, and one whose turn it is already
  using Slots = PipelineIndex<slots>;
  static constexpr int more_dq_tiles = 0;
  template <class Shape>
  struct Storage {
    static_assert(Shape::keys == 16 * dkv_turns_of_tile);
    // It is a block's turn; both consumers' dq of it has been written.
    std::uint64_t turn[slots], written[slots];
    DqPiece piece[slots];  // of that block
    // Of each KeyTile: its place in the work list, and how it is walked.
    int place_of_tile[Shape::tiles];
    Walk walk[Shape::tiles];

    __device__ __forceinline__ void init_barriers() {
      for (int n = 0; n < slots; ++n) {
        init_barrier(shared_address(&turn[n]), 1);
        init_barrier(shared_address(&written[n]), 1);
      }
    }
  };

  // --- producer warpgroup -------------------------------------------------------------------------------
  template <class Shape>
  using Tiles = OrderedTiles<Shape>;

  static __device__ __forceinline__ void prefetch(const Params&) {}

  // What a warp of the producer warpgroup does with all of its lanes; whether it does.
  template <class T, class Shape>
  static __device__ __forceinline__ bool run_warp(const FusedParams<OrderedDqSum>&, FusedStorage<Shape>&,
                                                  int) {
    return false;
  }
  // The first threads of warps 2 and 3.
  template <class Shape>
  static __device__ __forceinline__ void run_thread(const FusedParams<OrderedDqSum>& params,
                                                    FusedStorage<Shape>& memory, int thread) {
    if (thread == 0)
      add_in_order<Shape>(params, memory);
    else
      call_blocks<Shape>(params, memory);
  }

  // One thread: calls blocks when it is their turn.
  template <class Shape>
  static __device__ __forceinline__ void call_blocks(const typename Shape::Params& params,
                                                     FusedStorage<Shape>& memory) {
    using InfoStages = PipelineIndex<Shape::info_stages>;
    auto& ordered = memory.dq_sum;
    TurnFinder<Shape> turns(params.call.turns);
    for (int count = 0;; ++count) {
      const int info = InfoStages::stage(count), slot = Slots::stage(count);
      wait(shared_address(&memory.info_full[info]), InfoStages::parity(count));
      if ((memory.flags[info] & block_live) == 0) return;
      const Block& block = memory.found[info];
      const int tile = memory.tile_of[info];
      const WorkTile& rows = memory.tile[tile].rows;
      // Units are the tile's segments from the last to the first.
      const int unit = params.call.turns.unit_of_tile[ordered.place_of_tile[tile]] + rows.first + rows.count -
                       1 - block.segment;
      turns.look_up(block, unit, ordered.walk[tile], params.dq_sum.stores_first);
      turns.await();
      // The slot is free when the block that had it has been passed.
      if (count >= slots) wait(shared_address(&ordered.written[slot]), Slots::parity(count - slots));
      ordered.piece[slot] = turns.piece();
      fence_view_async_global();  // TMA adds only after what was waited for
      arrive(shared_address(&ordered.turn[slot]));
    }
  }

  // One thread: adds the dq that both consumers have staged for a block that has been called, and waits until
  // it has been written, once for both: their shared memory is not free any earlier (ptxas makes the same
  // wait of wait_group.read), and consumers are less than a block apart. Then it passes the turn.
  template <class Shape>
  static __device__ __forceinline__ void add_in_order(const typename Shape::Params& params,
                                                      FusedStorage<Shape>& memory) {
    auto& ordered = memory.dq_sum;
    for (int count = 0;; ++count) {
      const int slot = Slots::stage(count);
      DqPiece piece;
#pragma unroll
      for (int consumer = 0; consumer < Shape::consumers; ++consumer) {
        wait(shared_address(&memory.dq_full[consumer]), count & 1);
        const int staged = memory.dq_staged[consumer];
        if (staged == dq_end) return;
        if (consumer == 0) {
          wait(shared_address(&ordered.turn[slot]), Slots::parity(count));
          piece = ordered.piece[slot];
        }
        if (staged == dq_nothing_staged) continue;
        fence_view_async_shared();  // for the writes of other threads, made visible by the barrier
        const Block& block = memory.bounds[staged];
        const StagedDq<Shape> dq{params, memory, block.begin, block.head};
        if (piece.stored)
          dq.store(consumer);
        else
          dq.add(consumer);
      }
      tma_store_wait_until_written();
      for (int consumer = 0; consumer < Shape::consumers; ++consumer)
        arrive(shared_address(&memory.dq_empty[consumer]));
      pass(piece);
      arrive(shared_address(&ordered.written[slot]));
    }
  }

  // --- consumer warpgroups ------------------------------------------------------------------------------
  // Stages dq of a block for the threads above, with -0 in rows that must not be touched, or adds it here,
  // row by row. Returns whether it was staged. In turn, a box of TMA is added where unordered vector atomics
  // would take less time: it is written when the thread above says so.
  template <class Shape>
  static __device__ __forceinline__ bool hand_over(const DqTile<Shape>& dq) {
    const bool boxed = dq.clean || dq.params.adds_every_row;
    const bool staged = dq.params.adds_dq_by_tma && boxed;
    dq.wait_for_room();
    if (staged) {
      dq.stage();
      if (!dq.clean) dq.leave_rows_without_gradient();
    } else {
      dq.template add<true>(await_turn(dq.memory, dq.count));
    }
    return staged;
  }

  // All lanes of a warp: waits until it is the block's turn; whether its piece is stored, not added. Lane 0
  // reads that for its warp, because it says later, for its warp, that the turn's slot may be written again.
  template <class Shape>
  static __device__ __forceinline__ bool await_turn(FusedStorage<Shape>& memory, int count) {
    auto& ordered = memory.dq_sum;
    wait(shared_address(&ordered.turn[Slots::stage(count)]), Slots::parity(count));
    const bool stored = thread_index() % 32 == 0 && ordered.piece[Slots::stage(count)].stored;
    return __shfl_sync(all_lanes, static_cast<int>(stored), 0) != 0;
  }

  // dv, where it is staged apart from dk, before the tile's last dq is complete: written, or only staged if
  // it has to wait for its turn. Returns whether it has been written.
  template <class Epilogue, class Gradient>
  static __device__ __forceinline__ bool write_first(const Epilogue& epilogue, const Gradient& dv) {
    const bool in_turn = epilogue.params().splits_query_heads;
    if (in_turn)
      epilogue.stage(dv);
    else
      epilogue.write(dv);
    return !in_turn;
  }
  // Afterwards: dk, and dv if it has not been written.
  template <class At, class Epilogue, class Gradient>
  static __device__ __forceinline__ void write_second(const At& at, const Epilogue& epilogue,
                                                      const Gradient& dv, const Gradient& dk) {
    if (!epilogue.params().splits_query_heads) return epilogue.write(dk);
    const int place = at.memory.dq_sum.place_of_tile[at.tile_number()];
    epilogue.stage(dk);
    add_dkv_in_turn(epilogue, place, dv, dk);
  }
  template <class At, class Epilogue, class Gradient>
  static __device__ __forceinline__ void write_both(const At& at, const Epilogue& epilogue,
                                                    const Gradient& dv, const Gradient& dk) {
    if (!epilogue.params().splits_query_heads) return epilogue.write(dv, dk);
    const int place = at.memory.dq_sum.place_of_tile[at.tile_number()];
    epilogue.stage(dv, dk);
    add_dkv_in_turn(epilogue, place, dv, dk);
  }

  // Adds dk and dv, which are staged, in turn with the other query heads of the key head, which have other
  // thread blocks. A head waits for the one before it when nothing else is left to do: between its turn and
  // the next head's are two additions and a fence, and no other wait. What was staged has been read
  // afterwards.
  template <class Epilogue, class Gradient>
  static __device__ __forceinline__ void add_dkv_in_turn(const Epilogue& epilogue, int place,
                                                         const Gradient& dv, const Gradient& dk) {
    const auto& params = epilogue.params();
    const KeyTile& tile = epilogue.tile();
    const FastDivmod& heads = params.scheduler.of_kv_head;
    std::int32_t* const counter =
        params.call.turns.dkv_counters +
        (std::int64_t{tile.kv_head} * params.call.by_k.live + place) * dkv_turns_of_tile + epilogue.warp();
    if (epilogue.lane() == 0) {
      wait_for_count(counter, heads.remainder(tile.first_head, tile.kv_head));
      fence_view_async_global();
    }
    __syncwarp();
    epilogue.add_staged(dv, dk);
    if (epilogue.lane() != 0) return;
    tma_store_wait_until_written();
    fence_device_memory();
    if (heads.quotient(tile.first_head + 1) != tile.kv_head)
      *counter = 0;  // the last of the heads: nobody waits for it any more
    else
      add_one(counter);
  }
};

}  // namespace cplab::kernels::cuda::hopper
