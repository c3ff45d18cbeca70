// The thread of the forward kernel for Hopper that walks the tiles of its block and asks for what they need.
// Queries have two buffers, and K and V rings of two stages each; K is one block ahead of V, across tiles
// too. With every K the producer hands over the block's bounds, and which warpgroups have a live pair with
// the next one, so that only it walks the segments.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/attend_memory.cuh"

namespace cplab::kernels::cuda::hopper {

template <int D, int W>
class HopperAttendProducer {
 public:
  using Shape = HopperAttendShape<D, W>;
  using Stages = Ring<Shape::stages>;
  using Tiles = Ring<Shape::tiles>;

  __device__ __forceinline__ HopperAttendProducer(const HopperAttendParams& params,
                                                  HopperAttendMemory<D, W>& memory)
      : params_(params), memory_(memory), number_(static_cast<int>(blockIdx.x)) {}

  // The first tile of the block; there is one.
  __device__ __forceinline__ void start() {
    if (params_.call.work.segments != nullptr) {
      prefetch_line(params_.call.work.segments);
      prefetch_map(params_.q);
      prefetch_map(params_.k);
      prefetch_map(params_.v);
    }
    if (params_.stores_tiles) prefetch_map(params_.out);
    enter();
  }

  __device__ __forceinline__ void run() {
    for (;;) {
      // A tile has segments only if it has live pairs.
      if (tile_.count == 0) bring_values();  // nobody waits for a tile while it waits for these
      bring_queries();
      Block block = first_block<Owner::queries>(0, 1, tile_, params_.call.work.segments);
      const TileState state = block.live() ? TileState::live : TileState::without_keys;
      if (block.live())
        bring_keys(block);
      else
        take();
      marks_ = marks_of(block);
      hand_over(state);
      while (block.live()) {
        describe_and_go_on(block);
        // As late as the tile's facts can still come in time: who takes early takes more than his share.
        if (!block.live()) take();
        bring_values();
        ++count_;
        waiting_ = true;
        if (block.live()) bring_keys(block);
      }
      if (number_ >= params_.order.tiles) break;
      enter();
    }
    bring_values();
    tile_ = {};
    bring_queries();
    hand_over(TileState::none);
  }

 private:
  // Takes the number of the next tile. The last of all takes, one by each block that finds none left, winds
  // the counter back for the next launch.
  __device__ __forceinline__ void take() {
    if (params_.counter == nullptr) {
      number_ += params_.blocks;
      return;
    }
    const int taken = add_one(params_.counter);
    if (taken == params_.order.tiles - 1) *params_.counter = 0;
    number_ = params_.blocks + taken;
  }

  __device__ __forceinline__ void enter() {
    int tile;
    params_.order.find(number_, tile, head_);
    tile_ = params_.call.work.tiles[tile];
    kv_head_ = params_.order.of_kv_head.quotient(head_);
  }

  // Asks for the queries of the tile before its segments are known, which takes as long.
  __device__ __forceinline__ void bring_queries() {
    const int buffer = Tiles::stage(tiles_);
    wait(shared_address(&memory_.q_empty[buffer]), Tiles::parity(tiles_) ^ 1);
    std::uint32_t into = shared_address(memory_.q[buffer][0]);
#pragma unroll 1
    for (int row = tile_.begin; row < tile_.end; row += 64, into += Shape::q_bytes)
      copy_tile(into, params_.q, row, head_, shared_address(&memory_.q_full[buffer]));
  }

  __device__ __forceinline__ void hand_over(TileState state) {
    const int buffer = Tiles::stage(tiles_);
    ++tiles_;
    memory_.tile[buffer] = {tile_.begin, tile_.end, head_, state, static_cast<std::int16_t>(marks_)};
    const int warpgroups = (tile_.end - tile_.begin + 63) / 64;
    arrive_expecting(shared_address(&memory_.q_full[buffer]), warpgroups * Shape::q_bytes);
  }

  // Marks of a block: bit w if it is one and has a live pair with the rows of warpgroup w, and
  // block_is_masked unless all pairs with the tile's rows are live. Rows from the tile's end on are nobody's:
  // no matter what they see.
  __device__ __forceinline__ int marks_of(const Block& block) const {
    if (!block.live()) return 0;
    // The rows that see a key of the block lie together.
    const int key_last = block.begin + Shape::keys - 1;
    const int first = max(block.row_begin, block.begin - block.high) - tile_.begin;
    const int last = min(block.row_end - 1, min(key_last, block.end - 1) - block.low) - tile_.begin;
    const int live = first <= last ? (2 << last / 64) - (1 << first / 64) : 0;
    const bool all = tile_.begin >= block.row_begin && tile_.end <= block.row_end && key_last < block.end &&
                     tile_.end - 1 + block.low <= block.begin && key_last <= tile_.begin + block.high;
    return all ? live : live | block_is_masked;
  }

  // As soon as a block is known; the barrier also waits for what describes the block.
  __device__ __forceinline__ void bring_keys(const Block& block) {
    const int stage = Stages::stage(count_);
    wait(shared_address(&memory_.k_empty[stage]), Stages::parity(count_) ^ 1);
    copy_tile(shared_address(memory_.k[stage]), params_.k, block.begin, kv_head_,
              shared_address(&memory_.k_full[stage]));
  }

  // What consumers need to know of a block, among it who goes on with the next one.
  __device__ __forceinline__ void describe_and_go_on(Block& block) {
    const int stage = Stages::stage(count_);
    memory_.bounds[stage] = block;
    memory_.bounds[stage].head = kv_head_;
    BlockFacts& facts = memory_.facts[stage];
    facts.keys = block.end - block.begin;
    const int masked = marks_ & block_is_masked;
    block = next_block<Owner::queries, Shape::keys>(block, 1, tile_, params_.call.work.segments);
    marks_ = marks_of(block);
    facts.marks = masked | (block.live() ? marks_ & ~block_is_masked : block_is_last);
    arrive_expecting(shared_address(&memory_.k_full[stage]), Shape::k_bytes);
  }

  // Those of the block before, if they are still waiting.
  __device__ __forceinline__ void bring_values() {
    if (!waiting_) return;
    waiting_ = false;
    const int stage = Stages::stage(count_ - 1);
    const std::uint32_t full = shared_address(&memory_.v_full[stage]);
    wait(shared_address(&memory_.v_empty[stage]), Stages::parity(count_ - 1) ^ 1);
    arrive_expecting(full, Shape::k_bytes);
    const Block& block = memory_.bounds[stage];
    copy_tile(shared_address(memory_.v[stage]), params_.v, block.begin, block.head, full);
  }

  const HopperAttendParams& params_;
  HopperAttendMemory<D, W>& memory_;
  int number_;  // of the tile, or of the next one once that is taken
  WorkTile tile_;
  int head_ = 0, kv_head_ = 0;
  int tiles_ = 0;         // handed over
  int count_ = 0;         // blocks whose keys were asked for
  int marks_ = 0;         // of the coming block
  bool waiting_ = false;  // the values of the last block are yet to be asked for
};

}  // namespace cplab::kernels::cuda::hopper
