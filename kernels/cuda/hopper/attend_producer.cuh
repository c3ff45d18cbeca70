// The thread of the forward kernel for Hopper that walks the tiles of its block and asks for what they need.
// Queries have two buffers, and K and V rings of two stages each; K is one block ahead of V, across tiles
// too. With every K the producer hands over the block's bounds, so that only it walks the segments.
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
      Block block = first_block<Owner::queries>(0, 1, tile_, params_.call.work.segments);
      if (!block.live()) {
        bring_values();  // nobody waits for a tile while it waits for these
        take();
      }
      bring_queries(block.live() ? TileState::live : TileState::without_keys);
      while (block.live()) {
        const int begin = block.begin;
        bring_keys(block);
        // As late as the tile's facts can still come in time: who takes early takes more than his share.
        if (!block.live()) take();
        bring_values();
        waiting_ = begin;
        waiting_head_ = kv_head_;
        ++count_;
      }
      if (number_ >= params_.order.tiles) break;
      enter();
    }
    bring_values();
    bring_queries(TileState::none);
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

  __device__ __forceinline__ void bring_queries(TileState state) {
    const int buffer = Tiles::stage(tiles_);
    const std::uint32_t full = shared_address(&memory_.q_full[buffer]);
    wait(shared_address(&memory_.q_empty[buffer]), Tiles::parity(tiles_) ^ 1);
    ++tiles_;
    memory_.tile[buffer] = {tile_.begin, tile_.end, head_, state};
    if (state != TileState::live) return arrive(full);
    arrive_expecting(full, Shape::consumers * Shape::q_bytes);
#pragma unroll 1
    for (int n = 0; n < Shape::consumers; ++n)
      copy_tile(shared_address(memory_.q[buffer][n]), params_.q, tile_.begin + 64 * n, head_, full);
  }

  // Goes on to the next block.
  __device__ __forceinline__ void bring_keys(Block& block) {
    const int stage = Stages::stage(count_);
    const std::uint32_t full = shared_address(&memory_.k_full[stage]);
    wait(shared_address(&memory_.k_empty[stage]), Stages::parity(count_) ^ 1);
    memory_.bounds[stage] = block;
    const int begin = block.begin;
    const int row_last = tile_.begin + Shape::rows - 1, key_last = begin + Shape::keys - 1;
    const bool all = tile_.begin >= block.row_begin && row_last < block.row_end && key_last < block.end &&
                     row_last + block.low <= begin && key_last <= tile_.begin + block.high;
    BlockFacts& facts = memory_.facts[stage];
    facts.keys = block.end - begin;
    facts.masked = !all;
    block = next_block<Owner::queries, Shape::keys>(block, 1, tile_, params_.call.work.segments);
    facts.last = !block.live();
    arrive_expecting(full, Shape::k_bytes);
    copy_tile(shared_address(memory_.k[stage]), params_.k, begin, kv_head_, full);
  }

  // Those of the block before, if they are still waiting.
  __device__ __forceinline__ void bring_values() {
    if (waiting_ < 0) return;
    const int stage = Stages::stage(count_ - 1);
    const std::uint32_t full = shared_address(&memory_.v_full[stage]);
    wait(shared_address(&memory_.v_empty[stage]), Stages::parity(count_ - 1) ^ 1);
    arrive_expecting(full, Shape::k_bytes);
    copy_tile(shared_address(memory_.v[stage]), params_.v, waiting_, waiting_head_, full);
    waiting_ = -1;
  }

  const HopperAttendParams& params_;
  HopperAttendMemory<D, W>& memory_;
  int number_;  // of the tile, or of the next one once that is taken
  WorkTile tile_;
  int head_ = 0, kv_head_ = 0;
  int tiles_ = 0;                        // handed over
  int count_ = 0;                        // blocks whose keys were asked for
  int waiting_ = -1, waiting_head_ = 0;  // the first row of the values to be asked for next
};

}  // namespace cplab::kernels::cuda::hopper
