// The tiles of keys that a thread block takes, one after the other: what all ways of summing dq share. Each
// way derives its own source of tiles from this, because its order of tiles is what makes it work.
//
// One thread calls everything: first start(), before barriers are initialized and while the launch before may
// still run; then run(), which has the producer walk over tiles; this calls next() and enter() for tile after
// tile.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"

namespace cplab::kernels::cuda::hopper {

template <class Shape>
class TileSource {
 public:
  using Params = typename Shape::Params;

  // The first block of queries of the KeyTile `number`, and the block after a block: from its first segment
  // to its last.
  __device__ __forceinline__ Block first_block(int number) const {
    const KeyTile& tile = memory_.tile[number];
    return cuda::first_block<Owner::keys>(tile.first_head, tile.stop_head, tile.rows, segments());
  }
  __device__ __forceinline__ Block block_after(const Block& block, int number) const {
    const KeyTile& tile = memory_.tile[number];
    return next_block<Owner::keys, Shape::queries>(block, tile.stop_head, tile.rows, segments());
  }

 protected:
  __device__ __forceinline__ TileSource(const Params& params, FusedStorage<Shape>& memory, int drawn)
      : params_(params), memory_(memory), drawn_(drawn) {}

  __device__ __forceinline__ const DeviceSegment* segments() const { return params_.call.by_k.segments; }

  // Both together make tile `index` of the work list, for the query heads from first_head on, the KeyTile
  // `number`.
  __device__ __forceinline__ void enter_rows(int number, int index) {
    KeyTile& entered = memory_.tile[number];
    entered.rows = params_.call.by_k.tiles[index];
    entered.segment = segments()[entered.rows.first];
  }
  __device__ __forceinline__ void enter_heads(int number, int first_head) {
    KeyTile& entered = memory_.tile[number];
    entered.first_head = first_head;
    entered.stop_head = entered.first_head + params_.heads_of_tile;
    entered.kv_head = params_.scheduler.of_kv_head.quotient(entered.first_head);
  }

  // Draws the thread block's next number of the scheduler; returns false if there is none. The first number
  // is that of the thread block itself. If there is a counter, every thread block draws until it finds no
  // tile left, and the last of these draws sets the counter back to 0 for the next launch.
  __device__ __forceinline__ bool draw() {
    if (params_.counter == nullptr) {
      drawn_ += params_.blocks;
    } else {
      const int taken = atomic_add_one(params_.counter);
      if (taken == params_.scheduler.tiles - 1) *params_.counter = 0;
      drawn_ = params_.blocks + taken;
    }
    return drawn_ < params_.scheduler.tiles;
  }

  const Params& params_;
  FusedStorage<Shape>& memory_;
  int drawn_;  // the scheduler's number that was drawn last
};

}  // namespace cplab::kernels::cuda::hopper
