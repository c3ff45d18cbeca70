// Of the producer warpgroup of the fused backward kernel: a thread that loads K, V, Q and dO, and a warp that
// loads lse and delta. The others add staged dq to memory (dq_store.cuh; ordered: dq_turns.cuh; by chains,
// which also round it: dq_chains.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// One thread: fetches tiles of keys, walks their segments and loads tiles. A block's bounds are found two
// blocks before there is room for its Q and dO, across tiles too, so that everything the next tile begins
// with is being loaded while consumers are in the epilogue.
//
// Ordered: some tiles are walked upward, and taken from the list's last to its first; the others are walked
// downward, as listed (kernels/work/turns.hpp, HeadGroups). All tiles are drawn by the counter, the first one
// too: a thread block that does not run yet has none that others could wait for.
template <class Shape>
class FusedProducer {
 public:
  static constexpr bool ordered = Shape::ordered;
  using Stages = PipelineIndex<Shape::stages>;
  using InfoStages = PipelineIndex<Shape::info_stages>;

  __device__ __forceinline__ FusedProducer(const FusedParams& params, FusedStorage<Shape>& memory)
      : params_(params), memory_(memory), tile_index_(ordered ? -1 : static_cast<int>(blockIdx.x)) {}

  // The thread block's first tile. There always is one, unless tiles are drawn.
  __device__ __forceinline__ void start() {
    begin_chain();
    begin_tile(0);
  }

  __device__ __forceinline__ void run() {
    if constexpr (ordered) {
      if (!fetch_next_tile()) return publish(0, 0, nowhere());
      start();
    }
    load_kv(0);  // before the segments have been read, which takes as long as this copy
    publish(0, 0, first_block_of(0));
    for (int count = -1;; ++count) {
      look_ahead(count + 2);
      if (count < 0) continue;
      const Block& block = memory_.found[InfoStages::stage(count)];
      if (!block.live()) return;
      const int tile = memory_.tile_of[InfoStages::stage(count)];
      const bool begins_tile = count > 0 && memory_.tile_of[InfoStages::stage(count - 1)] != tile;
      const int phase_before = (tile & 1) ^ 1;
      // Where nothing is staged in the place of Q and dO, these are free before K and V.
      constexpr bool q_first = Shape::stores_rounded_rows;
      if (begins_tile && !q_first) load_next_kv(tile, phase_before);
      wait(shared_address(&memory_.empty[Stages::stage(count)]), Stages::parity(count) ^ 1);
      if (begins_tile && !q_first) wait(shared_address(&memory_.q_free), phase_before);
      load_q_dout(block, Stages::stage(count));
      if (begins_tile && q_first) load_next_kv(tile, phase_before);
    }
  }

 private:
  __device__ __forceinline__ const DeviceSegment* segments() const { return params_.call.by_k.segments; }

  // By chains: what is drawn is a chain and its heads.
  __device__ __forceinline__ void begin_chain() {
    if constexpr (Shape::by_chains) {
      int chain, unit;
      params_.scheduler.find(tile_index_, chain, unit);
      chain_ = params_.call.chains.chains[chain];
      place_ = chain_.first_tile;
    }
  }

  __device__ __forceinline__ void begin_tile(int tile) {
    int index, unit;
    params_.scheduler.find(tile_index_, index, unit);
    if constexpr (Shape::by_chains) {
      index = place_;
      memory_.chains.owner_of_tile[tile] = {chain_.row_begin, chain_.cells,
                                            params_.call.chains.pieces + chain_.first_cell};
    }
    if constexpr (ordered) {
      const bool whole_head = unit < params_.upward_heads;
      const int stop = whole_head ? params_.call.by_k.live : params_.upward_tiles;  // of tiles walked upward
      memory_.walk[tile] = index >= stop ? Walk::downward
                           : whole_head  ? Walk::upward_as_whole_head
                                         : Walk::upward;
      if (index < stop) index = stop - 1 - index;
      memory_.place_of_tile[tile] = index;
    }
    KeyTile& entered = memory_.tile[tile];
    entered.rows = params_.call.by_k.tiles[index];
    entered.segment = segments()[entered.rows.first];
    entered.first_head = first_head_of(unit);
    entered.stop_head = entered.first_head + params_.heads_of_tile;
    entered.kv_head = params_.scheduler.of_kv_head.quotient(entered.first_head);
  }

  // Of the heads of a tile. In turn the query heads of a key head are as far apart as can be: those that add
  // to the same dk and dv would wait for each other.
  __device__ __forceinline__ int first_head_of(int unit) const {
    if (!ordered || !params_.splits_query_heads) return unit * params_.heads_of_tile;
    const int place = params_.of_key_heads.quotient(unit),
              kv_head = params_.of_key_heads.remainder(unit, place);
    return kv_head * params_.heads_of_key_head + place;
  }

  // Fetches the next tile; false if there is none. Every thread block fetches until it finds none left; the
  // last of these fetches sets the counter back to 0 for the next launch.
  __device__ __forceinline__ bool fetch_next_tile() {
    if constexpr (Shape::by_chains)
      if (++place_ < chain_.stop_tile) return true;
    if (!fetch_next()) return false;
    begin_chain();
    return true;
  }
  __device__ __forceinline__ bool fetch_next() {
    if constexpr (ordered) {
      tile_index_ = atomic_add_one(params_.counter);
      if (tile_index_ == params_.scheduler.tiles + params_.blocks - 1) *params_.counter = 0;
    } else if (params_.counter == nullptr) {
      tile_index_ += params_.blocks;
    } else {
      const int taken = atomic_add_one(params_.counter);
      if (taken == params_.scheduler.tiles - 1) *params_.counter = 0;
      tile_index_ = params_.blocks + taken;
    }
    return tile_index_ < params_.scheduler.tiles;
  }

  __device__ __forceinline__ Block first_block_of(int number) const {
    const KeyTile& tile = memory_.tile[number];
    if constexpr (ordered)
      if (memory_.walk[number] == Walk::downward)
        return first_block_downward<Shape::queries>(tile.first_head, tile.stop_head, tile.rows, segments());
    return first_block<Owner::keys>(tile.first_head, tile.stop_head, tile.rows, segments());
  }
  __device__ __forceinline__ Block block_after(const Block& block, int number) const {
    const KeyTile& tile = memory_.tile[number];
    if constexpr (ordered)
      if (memory_.walk[number] == Walk::downward)
        return next_block_downward<Shape::queries>(block, tile.stop_head, tile.rows, segments());
    return next_block<Owner::keys, Shape::queries>(block, tile.stop_head, tile.rows, segments());
  }
  static __device__ __forceinline__ Block nowhere() {
    Block block = {};
    block.segment = Block::nowhere;
    return block;
  }

  __device__ __forceinline__ void publish(int count, int tile, const Block& block) {
    const int slot = InfoStages::stage(count);
    memory_.found[slot] = block;
    memory_.tile_of[slot] = tile;
    arrive(shared_address(&memory_.found_full[slot]));
  }

  // Finds block `count` from the block before it, and publishes it.
  __device__ __forceinline__ void look_ahead(int count) {
    const int slot_before = InfoStages::stage(count - 1);
    const Block& before = memory_.found[slot_before];
    if (!before.live()) return publish(count, 0, before);
    int tile = memory_.tile_of[slot_before];
    Block block = block_after(before, tile);
    if (!block.live() && fetch_next_tile()) {
      tile = (tile + 1) % Shape::tiles;
      begin_tile(tile);
      block = first_block_of(tile);
    }
    publish(count, tile, block);
  }

  __device__ __forceinline__ void load_next_kv(int tile, int phase_before) {
    wait(shared_address(&memory_.kv_empty), phase_before);
    load_kv(tile);
  }
  __device__ __forceinline__ void load_kv(int tile) {
    const KeyTile& at = memory_.tile[tile];
    const std::uint32_t full = shared_address(&memory_.kv_full);
    arrive_and_expect_tx(full, 2 * Shape::consumers * Shape::key_bytes);
    for (int n = 0; n < Shape::consumers; ++n)
      tma_load_once(shared_address(memory_.k[n]), params_.k, at.rows.begin + 64 * n, at.kv_head, full);
    for (int n = 0; n < Shape::consumers; ++n)
      tma_load_once(shared_address(memory_.v[n]), params_.v, at.rows.begin + 64 * n, at.kv_head, full);
  }

  __device__ __forceinline__ void load_q_dout(const Block& block, int stage) {
    const std::uint32_t full = shared_address(&memory_.full[stage]);
    arrive_and_expect_tx(full, 2 * Shape::query_bytes);
    for (int row = 0; row < Shape::queries; row += Shape::query_box_rows)
      tma_load(shared_address(memory_.q[stage] + row * 128), params_.q, block.begin + row, block.head, full);
    for (int row = 0; row < Shape::queries; row += Shape::query_box_rows)
      tma_load(shared_address(memory_.dout[stage] + row * 128), params_.dout, block.begin + row, block.head,
               full);
  }

  const FusedParams& params_;
  FusedStorage<Shape>& memory_;
  int tile_index_;  // of the tile fetched last, or the chain; ordered, at first: -1
  TileChain chain_ = {};
  int place_ = 0;  // of the tile in the list, by chains
};

// Whether all pairs of the tile's keys and the block's queries are live.
template <class Shape>
__device__ __forceinline__ bool all_pairs_live(const Block& block, const WorkTile& tile) {
  const int key_last = tile.begin + Shape::keys - 1, query_last = block.begin + Shape::queries - 1;
  return tile.begin >= block.row_begin && key_last < block.row_end && query_last < block.end &&
         key_last + block.low <= block.begin && query_last <= tile.begin + block.high;
}

// Starts to load lse and delta of block `count`.
template <class Shape>
__device__ __forceinline__ void load_info(const FusedParams& params, FusedStorage<Shape>& memory, int count) {
  const Block& block = memory.found[PipelineIndex<Shape::info_stages>::stage(count)];
  const int stage = PipelineIndex<Shape::loaded_stages>::stage(count);
  load_lse_delta_tiles(memory.loaded[stage], params.lse, params.delta, block.begin, block.head,
                       shared_address(&memory.loaded_full[stage]));
}

// Where TMA cannot: starts to copy them, each number for itself; 0 for rows beyond the block.
template <class Shape>
__device__ __forceinline__ void copy_info(const AttendBackwardParams& call, FusedStorage<Shape>& memory,
                                          int count) {
  const int lane = thread_index() % 32, slot = PipelineIndex<Shape::info_stages>::stage(count);
  const Block& block = memory.found[slot];
  const std::uint32_t lse_delta = shared_address(memory.lse_delta[slot]) + lane / 2 * 16 + lane % 2 * 4;
#pragma unroll
  for (int n = 0; n < Shape::queries / 32; ++n) {
    const int row = block.begin + lane + 32 * n;
    const bool inside = row < block.end;
    const int read = inside ? row : block.begin;
    cp_async_float(lse_delta + 256 * n, row_of<const float>(call.lse, block.head, read), inside);
    cp_async_float(lse_delta + 256 * n + 8, row_of<const float>(call.delta, block.head, read), inside);
  }
}

// The copies for block `count` have arrived: lse and delta are prepared, bounds and flags written for the
// consumers. The block after it must have been found.
template <class Shape>
__device__ __forceinline__ void finish_info(const FusedParams& params, FusedStorage<Shape>& memory,
                                            int count) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  const int lane = thread_index() % 32, slot = InfoStages::stage(count), next = InfoStages::stage(count + 1);
  const Block& block = memory.found[slot];
  const int tile = memory.tile_of[slot];
  constexpr int fields = sizeof(Block) / sizeof(int);
  if (lane < fields) {
    const bool segment = lane == offsetof(Block, segment) / sizeof(int);
    reinterpret_cast<int*>(&memory.bounds[slot])[lane] =
        segment ? tile : reinterpret_cast<const int*>(&block)[lane];
  }
  float* const lse_delta = reinterpret_cast<float*>(memory.lse_delta[slot]) + lane / 2 * 4 + lane % 2;
  // What was loaded, or copied to where the result goes; 32 queries further on, and from lse to delta.
  const float* from = lse_delta;
  int step = 64, to_delta = 2;
  if (params.loads_lse_delta_by_tma) {
    using Loaded = PipelineIndex<Shape::loaded_stages>;
    wait(shared_address(&memory.loaded_full[Loaded::stage(count)]), Loaded::parity(count));
    from = &memory.loaded[Loaded::stage(count)].lse[lane][block.head & 3];
    step = 32 * 4;
    to_delta = Shape::queries * 4;
  }
  bool unclean = false;
#pragma unroll
  for (int n = 0; n < Shape::queries / 32; ++n) {
    const int row = block.begin + lane + 32 * n;
    const float lse = from[step * n], delta = from[step * n + to_delta];
    const bool empty = row >= block.end || lse == -infinity();
    lse_delta[64 * n] = empty ? infinity() : lse * log2_e;
    lse_delta[64 * n + 2] = empty ? 0 : -delta * params.ds_factor;
    const std::uint32_t without_gradient = __ballot_sync(all_lanes, empty);
    if (lane == 0) memory.with_gradient[slot][n] = ~without_gradient;
    // Beyond the tensor TMA has loaded zeros and adds nothing.
    unclean |= __any_sync(all_lanes, empty && row < params.call.q.rows) != 0;
  }
  if (lane == 0) {
    const bool last = !memory.found[next].live() || memory.tile_of[next] != tile;
    const int before = InfoStages::stage(count - 1);
    const bool first = count == 0 || memory.tile_of[before] != tile;
    const bool before_clean = count > 0 && (memory.flags[before] & block_clean) != 0;
    memory.flags[slot] = block_live | (unclean ? 0 : block_clean) | (before_clean ? block_before_clean : 0) |
                         (first ? block_first : 0) | (last ? block_last : 0) |
                         (all_pairs_live<Shape>(block, memory.tile[tile].rows) ? 0 : block_masked);
  }
  arrive(shared_address(&memory.info_full[slot]));  // all 32 lanes arrive, each for its own writes
}

// One warp: loads lse and delta of the blocks that FusedProducer finds. The copies of a block are started
// before the block before it is prepared, because they take longer than a block's turn.
template <class Shape>
__device__ __forceinline__ void produce_info(const FusedParams& params, FusedStorage<Shape>& memory) {
  using InfoStages = PipelineIndex<Shape::info_stages>;
  for (int count = 0;; ++count) {
    const int slot = InfoStages::stage(count);
    wait(shared_address(&memory.found_full[slot]), InfoStages::parity(count));
    const bool live = memory.found[slot].live();
    if (live && params.loads_lse_delta_by_tma) load_info<Shape>(params, memory, count);
    if (live && !params.loads_lse_delta_by_tma) copy_info<Shape>(params.call, memory, count);
    cp_async_commit_group();
    if (count > 0) {
      cp_async_wait_group<1>();
      finish_info<Shape>(params, memory, count - 1);
    }
    if (live) continue;
    if (thread_index() % 32 == 0) memory.flags[slot] = 0;
    arrive(shared_address(&memory.info_full[slot]));
    return;
  }
}

}  // namespace cplab::kernels::cuda::hopper
