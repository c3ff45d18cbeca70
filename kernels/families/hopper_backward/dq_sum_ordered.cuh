// Summing dq in a fixed order, which gives the same bits in every run (FlashAttention's deterministic
// backward): a tile of keys adds its piece of dq of a block of queries to a cell of the dQ accumulator when
// all pieces that come before it have been added (kernels/families/hopper_backward/turns.hpp). A counter for
// each cell, a semaphore in FlashAttention's words, says how many have been. Where pieces are whole cells, a
// cell's first piece is stored, and nobody sets dq to 0 before. dk and dv of a key head whose query heads
// have thread blocks of their own are added in the order of heads, likewise by counters.
//
// Two threads of the producer warpgroup do this for both consumers, because what one thread does for a block
// must not take longer than the block's products. The first waits for turns (call_blocks()): it calls a block
// when its turn has come, perhaps while the block before is still being added. The second adds blocks that
// have been called, and then raises their counters, which passes the turn to the next tile (add_in_order()).
// So what lies between the additions of two tiles to a cell is as little as can be: a fence, and the way of a
// count to memory and back.
//
// No thread waits for ever. A piece waits only for tiles of the same head that come before its own in the
// order of the head, and the scheduler gives these lower numbers. Numbers are drawn in order, by thread
// blocks that run. So of the tiles that are not complete, the one with the lowest number has a thread block
// that runs, has completed its earlier tiles, and waits for nothing but its own earlier blocks. Within a
// thread block, a block that has been called is added without waiting for later ones, because blocks are
// called and added in the same order: the second thread waits for both consumers' dq of one block at a time,
// and a consumer stages dq of a block without waiting for what the other one stages after that block.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/dq_accumulate.cuh"
#include "kernels/families/hopper_backward/dq_turns.cuh"
#include "kernels/families/hopper_backward/shape.hpp"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/hopper_backward/tile_source.cuh"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/families/parts/hopper/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

// The order in which the launch takes heads.
struct OrderOfHeads {
  // The tiles of heads before upward_heads are taken in the opposite order, upward, and of other heads those
  // tiles before upward_tiles (HeadGroups).
  int upward_heads = 0, upward_tiles = 0;
  // Divides by the number of key heads. The launch takes the first query head of each key head, then the
  // second ones.
  FastDivmod of_key_heads;
  int heads_of_key_head = 1;  // query heads of a key head
};

// The tiles of a thread block. Those that walk upward are taken from the last in the list to its first, the
// others as listed. The counter numbers all tiles, the first of each thread block too: so a thread block that
// does not run yet has no tile for which others could wait.
template <class Shape>
class OrderedTiles : public TileSource<Shape> {
 public:
  __device__ __forceinline__ OrderedTiles(const typename Shape::Params& params, FusedStorage<Shape>& memory)
      : TileSource<Shape>(params, memory, -1) {}

  // The first tile cannot be drawn yet: the launch before may still use the counter.
  __device__ __forceinline__ void start() const {}
  template <class Producer>
  __device__ __forceinline__ void run(Producer& producer) {
    if (!next()) return producer.publish_nothing();
    enter(0);
    producer.walk_tiles();
  }
  // Draws the next tile. As in TileSource::draw(), the last of all draws sets the counter back to 0.
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

  // The first query head of a unit of heads. The query heads of a key head are taken as far apart as can be,
  // because they add to the same dk and dv, and would wait for each other.
  __device__ __forceinline__ int first_head_of(int unit) const {
    const auto& params = this->params_;
    if (!params.splits_query_heads) return unit * params.heads_of_tile;
    const OrderOfHeads& order = params.dq_sum.heads;
    const int place = order.of_key_heads.quotient(unit), kv_head = order.of_key_heads.remainder(unit, place);
    return kv_head * order.heads_of_key_head + place;
  }
};

struct OrderedDqSum {
  // --- host side ----------------------------------------------------------------------------------------
  struct Params {
    OrderOfHeads heads;
    bool stores_first = false;  // the first piece of a cell is stored, not added
  };
  static constexpr bool always_draws = true;  // the first tiles are drawn, too: thread blocks wait for others

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
  // The launch takes a tile `units` times, each time for other heads. At most `together` of them are to be
  // taken side by side; that becomes how many are.
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
  // One slot is for a block that is being added, one for a block that has been called.
  static constexpr int slots = 2;
  using Slots = PipelineIndex<slots>;
  static constexpr int more_dq_tiles = 0;
  template <class Shape>
  struct Storage {
    static_assert(Shape::keys == 16 * dkv_turns_of_tile);
    std::uint64_t turn[slots];     // a phase ends when the block in the slot is called
    std::uint64_t written[slots];  // a phase ends when both consumers' dq of it has been written
    DqPiece piece[slots];
    // The place of each KeyTile in the work list, and how it walks.
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

  // Returns whether this warp of the producer warpgroup has a role for all of its lanes, which has then
  // ended.
  template <class T, class Shape>
  static __device__ __forceinline__ bool run_warp(const FusedParams<OrderedDqSum>&, FusedStorage<Shape>&,
                                                  int) {
    return false;
  }
  // The roles of the first threads of warps 2 and 3, which are `thread` 0 and 1.
  template <class Shape>
  static __device__ __forceinline__ void run_thread(const FusedParams<OrderedDqSum>& params,
                                                    FusedStorage<Shape>& memory, int thread) {
    if (thread == 0)
      add_in_order<Shape>(params, memory);
    else
      call_blocks<Shape>(params, memory);
  }

  // The thread that calls blocks when their turns have come.
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
      // The units of a tile are its segments from the last to the first.
      const int unit = params.call.turns.unit_of_tile[ordered.place_of_tile[tile]] + rows.first + rows.count -
                       1 - block.segment;
      turns.look_up(block, unit, ordered.walk[tile], params.dq_sum.stores_first);
      turns.await();
      // The slot is free when the block that had it has been added, and its turn passed.
      if (count >= slots) wait(shared_address(&ordered.written[slot]), Slots::parity(count - slots));
      ordered.piece[slot] = turns.piece();
      fence_view_async_global();  // what TMA adds from here on comes after what was waited for
      arrive(shared_address(&ordered.turn[slot]));
    }
  }

  // The thread that adds the dq that both consumers have staged for a block that has been called, waits until
  // it has been written, and passes the turn. It waits once for both consumers: their shared memory is not
  // free any earlier (ptxas makes the same wait of wait_group.read), and they are less than a block apart.
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
        fence_view_async_shared();  // TMA sees what other threads wrote before they arrived at the barrier
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
  // Stages dq of a block for the threads above, with -0 in rows that must not be touched, if that may be;
  // else waits for the turn and adds it here, row by row. Returns whether it was staged.
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

  // Waits until the block has been called, and returns whether its piece is stored, not added. All lanes of a
  // warp call this. Lane 0 reads the answer for its warp, because it is lane 0 that later says for the warp
  // that the slot may be written again.
  template <class Shape>
  static __device__ __forceinline__ bool await_turn(FusedStorage<Shape>& memory, int count) {
    auto& ordered = memory.dq_sum;
    wait(shared_address(&ordered.turn[Slots::stage(count)]), Slots::parity(count));
    const bool stored = thread_index() % 32 == 0 && ordered.piece[Slots::stage(count)].stored;
    return __shfl_sync(all_lanes, static_cast<int>(stored), 0) != 0;
  }

  // Writes dv ahead of dk, before the tile's last dq is complete; or only stages it, if it has to wait for
  // its turn. Returns whether it has been written.
  template <class Epilogue, class Gradient>
  static __device__ __forceinline__ bool write_first(const Epilogue& epilogue, const Gradient& dv) {
    const bool in_turn = epilogue.params().splits_query_heads;
    if (in_turn)
      epilogue.stage(dv);
    else
      epilogue.write(dv);
    return !in_turn;
  }
  // Writes dk afterwards, and dv if write_first() has not.
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

  // Adds dk and dv, which are staged, when the query heads before this one have: they share the key head, but
  // have other thread blocks. `place` is the tile's in the work list. A head waits for its turn when nothing
  // else is left to do: from its turn to the next head's are two additions and a fence, and no other wait.
  // What was staged has been read when this returns.
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
      *counter = 0;  // this was the last of the heads, and none waits for the count any more
    else
      add_one(counter);
  }
};

}  // namespace cplab::kernels::cuda::hopper
