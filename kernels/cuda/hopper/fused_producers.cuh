// The threads of the kernel for all gradients (attend_backward_fused.cuh) that bring keys and queries to
// shared memory, and those that take sums of dq away.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/hopper/fused_tiles.cuh"

namespace cplab::kernels::cuda::hopper {

// One thread: takes tiles of keys, walks their segments and brings tiles. The bounds of a block are known two
// blocks before there is room for its rows, across tiles too: while consumers finish a tile, all that the
// next one begins with is under way. What it knows lies in shared memory: registers are short.
template <int D>
class FusedProducer {
 public:
  using Shape = FusedShape<D>;
  using Stages = Ring<Shape::stages>;
  using Facts = Ring<Shape::facts>;

  __device__ __forceinline__ FusedProducer(const FusedParams& params, FusedMemory<D>& memory)
      : params_(params), memory_(memory), number_(static_cast<int>(blockIdx.x)) {}

  // The first tile of the block; there is one.
  __device__ __forceinline__ void start() { enter(0); }

  __device__ __forceinline__ void run() {
    bring_keys(0);  // before the segments are known, which takes as long as the copy
    post(0, 0, first_block_of(memory_.tile[0]));
    for (int count = -1;; ++count) {
      look_ahead(count + 2);
      if (count < 0) continue;
      const Block& block = memory_.found[Facts::stage(count)];
      if (!block.live()) return;
      const int tile = memory_.tile_of[Facts::stage(count)];
      const bool enters = count > 0 && memory_.tile_of[Facts::stage(count - 1)] != tile;
      const int phase_before = (tile & 1) ^ 1;
      if (enters) {
        wait(shared_address(&memory_.keys_empty), phase_before);
        bring_keys(tile);
      }
      wait(shared_address(&memory_.empty[Stages::stage(count)]), Stages::parity(count) ^ 1);
      if (enters) wait(shared_address(&memory_.queries_free), phase_before);
      bring_queries(block, Stages::stage(count));
    }
  }

 private:
  __device__ __forceinline__ const DeviceSegment* segments() const { return params_.call.by_k.segments; }

  __device__ __forceinline__ void enter(int tile) {
    int index, unit;
    params_.order.find(number_, index, unit);
    KeyTile& entered = memory_.tile[tile];
    entered.rows = params_.call.by_k.tiles[index];
    entered.segment = segments()[entered.rows.first];
    entered.first_head = unit * params_.heads_of_tile;
    entered.stop_head = entered.first_head + params_.heads_of_tile;
    entered.kv_head = params_.order.of_kv_head.quotient(entered.first_head);
  }

  // Whether there is a next tile. The last of all takes, one by each block that finds none left, winds the
  // counter back for the next launch.
  __device__ __forceinline__ bool take() {
    if (params_.counter == nullptr) {
      number_ += params_.blocks;
    } else {
      const int taken = add_one(params_.counter);
      if (taken == params_.order.tiles - 1) *params_.counter = 0;
      number_ = params_.blocks + taken;
    }
    return number_ < params_.order.tiles;
  }

  __device__ __forceinline__ Block first_block_of(const KeyTile& tile) const {
    return first_block<Owner::keys>(tile.first_head, tile.stop_head, tile.rows, segments());
  }

  __device__ __forceinline__ void post(int count, int tile, const Block& block) {
    memory_.found[Facts::stage(count)] = block;
    memory_.tile_of[Facts::stage(count)] = tile;
    arrive(shared_address(&memory_.walked[Facts::stage(count)]));
  }

  // Finds block `count` from the one before.
  __device__ __forceinline__ void look_ahead(int count) {
    const Block& before = memory_.found[Facts::stage(count - 1)];
    if (!before.live()) return post(count, 0, before);
    int tile = memory_.tile_of[Facts::stage(count - 1)];
    const KeyTile* at = &memory_.tile[tile];
    Block block = next_block<Owner::keys, Shape::queries>(before, at->stop_head, at->rows, segments());
    if (!block.live() && take()) {
      tile = (tile + 1) % Shape::tiles;
      enter(tile);
      at = &memory_.tile[tile];
      block = first_block_of(*at);
    }
    post(count, tile, block);
  }

  __device__ __forceinline__ void bring_keys(int tile) {
    const KeyTile& at = memory_.tile[tile];
    const std::uint32_t full = shared_address(&memory_.keys_full);
    arrive_expecting(full, 2 * Shape::consumers * Shape::key_bytes);
    for (int n = 0; n < Shape::consumers; ++n)
      copy_tile(shared_address(memory_.k[n]), params_.k, at.rows.begin + 64 * n, at.kv_head, full);
    for (int n = 0; n < Shape::consumers; ++n)
      copy_tile(shared_address(memory_.v[n]), params_.v, at.rows.begin + 64 * n, at.kv_head, full);
  }

  __device__ __forceinline__ void bring_queries(const Block& block, int stage) {
    const std::uint32_t full = shared_address(&memory_.full[stage]);
    arrive_expecting(full, 2 * Shape::query_bytes);
    for (int row = 0; row < Shape::queries; row += 64)
      copy_tile(shared_address(memory_.q[stage] + row * 128), params_.q, block.begin + row, block.head, full);
    for (int row = 0; row < Shape::queries; row += 64)
      copy_tile(shared_address(memory_.dout[stage] + row * 128), params_.dout, block.begin + row, block.head,
                full);
  }

  const FusedParams& params_;
  FusedMemory<D>& memory_;
  int number_;  // of the tile
};

// Whether all pairs of the tile's keys and the block's queries are live.
template <int D>
__device__ __forceinline__ bool all_pairs_live(const Block& block, const WorkTile& tile) {
  using Shape = FusedShape<D>;
  const int key_last = tile.begin + Shape::keys - 1, query_last = block.begin + Shape::queries - 1;
  return tile.begin >= block.row_begin && key_last < block.row_end && query_last < block.end &&
         key_last + block.low <= block.begin && query_last <= tile.begin + block.high;
}

// Starts to copy lse and delta of a block as they are; 0 for rows beyond it.
template <int D>
__device__ __forceinline__ void start_facts(const AttendBackwardParams& call, FusedMemory<D>& memory,
                                            int slot) {
  const int lane = thread_index() % 32;
  const Block& block = memory.found[slot];
  const std::uint32_t pairs = shared_address(memory.pairs[slot]) + lane / 2 * 16 + lane % 2 * 4;
#pragma unroll
  for (int n = 0; n < FusedShape<D>::queries / 32; ++n) {
    const int row = block.begin + lane + 32 * n;
    const bool inside = row < block.end;
    const int read = inside ? row : block.begin;
    copy_float(pairs + 256 * n, row_of<const float>(call.lse, block.head, read), inside);
    copy_float(pairs + 256 * n + 8, row_of<const float>(call.delta, block.head, read), inside);
  }
}

// The copies of block `count` are there: they become what consumers need. The next block is known.
template <int D>
__device__ __forceinline__ void finish_facts(FusedMemory<D>& memory, int count) {
  using Facts = Ring<FusedShape<D>::facts>;
  const int lane = thread_index() % 32, slot = Facts::stage(count), next = Facts::stage(count + 1);
  const Block& block = memory.found[slot];
  const int tile = memory.tile_of[slot];
  constexpr int fields = sizeof(Block) / sizeof(int);
  if (lane < fields) {
    const bool segment = lane == offsetof(Block, segment) / sizeof(int);
    reinterpret_cast<int*>(&memory.bounds[slot])[lane] =
        segment ? tile : reinterpret_cast<const int*>(&block)[lane];
  }
  float* const pairs = reinterpret_cast<float*>(memory.pairs[slot]) + lane / 2 * 4 + lane % 2;
  bool unclean = false;
#pragma unroll
  for (int n = 0; n < FusedShape<D>::queries / 32; ++n) {
    const float lse = pairs[64 * n];
    const bool empty = block.begin + lane + 32 * n >= block.end || lse == -infinity();
    pairs[64 * n] = empty ? infinity() : lse * log2_e;
    pairs[64 * n + 2] = empty ? 0 : -pairs[64 * n + 2];
    unclean |= empty;
  }
  unclean = __any_sync(all_lanes, unclean) != 0;
  if (lane == 0) {
    const bool last = !memory.found[next].live() || memory.tile_of[next] != tile;
    const int before = Facts::stage(count - 1);
    const bool first = count == 0 || memory.tile_of[before] != tile;
    const bool before_clean = count > 0 && (memory.flags[before] & block_clean) != 0;
    memory.flags[slot] = block_live | (unclean ? 0 : block_clean) | (before_clean ? block_before_clean : 0) |
                         (first ? block_first : 0) | (last ? block_last : 0) |
                         (all_pairs_live<D>(block, memory.tile[tile].rows) ? 0 : block_masked);
  }
  arrive(shared_address(&memory.facts_full[slot]));  // each lane for what it wrote
}

// One warp: brings lse and delta of the blocks that the thread above has found, a block's copies under way
// while the one before is finished: their latency is longer than a block's turn.
template <int D>
__device__ __forceinline__ void produce_facts(const AttendBackwardParams& call, FusedMemory<D>& memory) {
  using Facts = Ring<FusedShape<D>::facts>;
  for (int count = 0;; ++count) {
    const int slot = Facts::stage(count);
    wait(shared_address(&memory.walked[slot]), Facts::parity(count));
    const bool live = memory.found[slot].live();
    if (live) start_facts(call, memory, slot);
    commit_float_copies();
    if (count > 0) {
      wait_for_float_copies<1>();
      finish_facts(memory, count - 1);
    }
    if (live) continue;
    if (thread_index() % 32 == 0) memory.flags[slot] = 0;
    return arrive(shared_address(&memory.facts_full[slot]));
  }
}

// One thread for each consumer: adds what it has staged to dq.
template <int D>
__device__ __forceinline__ void send_sums(const FusedParams& params, FusedMemory<D>& memory, int consumer) {
  for (int count = 0;; ++count) {
    wait(shared_address(&memory.sums_full[consumer]), count & 1);
    const int staged = memory.staged[consumer];
    if (staged == staged_end) return;
    if (staged != staged_nothing) {
      fence_shared_writes();  // other threads', which the barrier has made visible here
      // Of 128 queries each has 64, or 64 columns of 128.
      const Block& block = memory.bounds[staged];
      add_tile(params.dq, block.begin + (D == 64 ? 64 * consumer : 0), D == 64 ? 0 : 2 * consumer, block.head,
               shared_address(memory.sums[consumer]));
      finish_stores();
    }
    arrive(shared_address(&memory.sums_empty[consumer]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
