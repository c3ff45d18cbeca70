// Two roles of the producer warpgroup of the fused backward kernel: a thread that loads K, V, Q and dO, and a
// warp that loads lse and delta. What the other warps do, the way of summing dq says (dq_sum_*.cuh).
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// The thread that takes tiles of keys (tile_source.cuh), walks over their segments and loads K, V, Q and dO.
// It finds a block's bounds two blocks before there is room for its Q and dO, across tiles too, so that
// everything the next tile begins with is being loaded while consumers are in the epilogue.
template <class Shape>
class FusedProducer {
 public:
  using Params = typename Shape::Params;
  using Stages = PipelineIndex<Shape::stages>;
  using InfoStages = PipelineIndex<Shape::info_stages>;

  __device__ __forceinline__ FusedProducer(const Params& params, FusedStorage<Shape>& memory)
      : params_(params), memory_(memory), tiles_(params, memory) {}

  // Enters the first tile, if it is known at this point: the launch before this one may still run.
  __device__ __forceinline__ void start() { tiles_.start(); }

  __device__ __forceinline__ void run() { tiles_.run(*this); }

  // What run() does in a thread block that has no tile.
  __device__ __forceinline__ void publish_nothing() { publish(0, 0, nowhere()); }
  // What run() does in all others. The first tile has been entered.
  __device__ __forceinline__ void walk_tiles() {
    load_kv(0);  // comes before the segments are read, which takes as long as this copy
    publish(0, 0, tiles_.first_block(0));
    for (int count = -1;; ++count) {
      look_ahead(count + 2);
      if (count < 0) continue;
      const Block& block = memory_.found[InfoStages::stage(count)];
      if (!block.live()) return;
      const int tile = memory_.tile_of[InfoStages::stage(count)];
      const bool begins_tile = count > 0 && memory_.tile_of[InfoStages::stage(count - 1)] != tile;
      const int phase_before = (tile & 1) ^ 1;
      // If nothing is staged in the place of Q and dO, they are free earlier than K and V.
      constexpr bool q_first = Shape::stores_rounded_rows;
      if (begins_tile && !q_first) load_next_kv(tile, phase_before);
      wait(shared_address(&memory_.empty[Stages::stage(count)]), Stages::parity(count) ^ 1);
      if (begins_tile && !q_first) wait(shared_address(&memory_.q_free), phase_before);
      load_q_dout(block, Stages::stage(count));
      if (begins_tile && q_first) load_next_kv(tile, phase_before);
    }
  }

 private:
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
    Block block = tiles_.block_after(before, tile);
    if (!block.live() && tiles_.next()) {
      tile = (tile + 1) % Shape::tiles;
      tiles_.enter(tile);
      block = tiles_.first_block(tile);
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
    const auto load = [&](std::uint32_t into, const CUtensorMap& map, int row, bool single_groups) {
      by_column_groups<Shape::head_size / 64>(single_groups, [&](int group) {
        tma_load_once(into + static_cast<std::uint32_t>(group * Shape::key_half_bytes), map, row, at.kv_head,
                      full, 0, 64 * group);
      });
    };
    for (int n = 0; n < Shape::consumers; ++n)
      load(shared_address(memory_.k[n]), params_.k, at.rows.begin + 64 * n, params_.single_key_groups);
    for (int n = 0; n < Shape::consumers; ++n)
      load(shared_address(memory_.v[n]), params_.v, at.rows.begin + 64 * n, params_.single_value_groups);
  }

  __device__ __forceinline__ void load_q_dout(const Block& block, int stage) {
    const std::uint32_t full = shared_address(&memory_.full[stage]);
    arrive_and_expect_tx(full, 2 * Shape::query_bytes);
    const auto load = [&](std::uint32_t into, const CUtensorMap& map, int row, bool single_groups) {
      by_column_groups<Shape::head_size / 64>(single_groups, [&](int group) {
        tma_load(into + static_cast<std::uint32_t>(group * Shape::query_half_bytes), map, block.begin + row,
                 block.head, full, 0, 64 * group);
      });
    };
    for (int row = 0; row < Shape::queries; row += Shape::query_box_rows)
      load(shared_address(memory_.q[stage] + row * 128), params_.q, row, params_.single_key_groups);
    for (int row = 0; row < Shape::queries; row += Shape::query_box_rows)
      load(shared_address(memory_.dout[stage] + row * 128), params_.dout, row, params_.single_value_groups);
  }

  const Params& params_;
  FusedStorage<Shape>& memory_;
  typename Shape::DqSum::template Tiles<Shape> tiles_;
};

// Returns whether all pairs of the tile's keys and the block's queries are live.
template <class Shape>
__device__ __forceinline__ bool all_pairs_live(const Block& block, const WorkTile& tile) {
  const int key_last = tile.begin + Shape::keys - 1, query_last = block.begin + Shape::queries - 1;
  return tile.begin >= block.row_begin && key_last < block.row_end && query_last < block.end &&
         key_last + block.low <= block.begin && query_last <= tile.begin + block.high;
}

// The warp starts to load lse and delta of block `count` by TMA.
template <class Shape>
__device__ __forceinline__ void load_info(const typename Shape::Params& params, FusedStorage<Shape>& memory,
                                          int count) {
  const Block& block = memory.found[PipelineIndex<Shape::info_stages>::stage(count)];
  const int stage = PipelineIndex<Shape::loaded_stages>::stage(count);
  load_lse_delta_tiles(memory.loaded[stage], params.lse, params.delta, block.begin, block.head,
                       shared_address(&memory.loaded_full[stage]));
}

// The warp starts to copy lse and delta of block `count` number by number, where TMA cannot load them; 0 for
// rows beyond the block.
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

// Prepares lse and delta of block `count`, whose copies have arrived, and writes its bounds and flags for the
// consumers. The block after it must have been found.
template <class Shape>
__device__ __forceinline__ void finish_info(const typename Shape::Params& params, FusedStorage<Shape>& memory,
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
  if constexpr (Shape::changes_scores) {
    const ScoreParams& by = params.scores;
    if (lane == 0 && by.slopes != nullptr)
      memory.scores.of[slot] = {by.slopes[block.head], by.shifts[block.segment]};
  }
  float* const lse_delta = reinterpret_cast<float*>(memory.lse_delta[slot]) + lane / 2 * 4 + lane % 2;
  // Where the lane's first lse is read: where TMA has loaded it, or where it was copied to, which is where
  // the result goes. `step` leads to the one 32 queries further on, to_delta from lse to delta.
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
    // Rows beyond the tensor do not count: TMA has loaded zeros there, and adds nothing.
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

// The warp that loads lse and delta of the blocks that FusedProducer finds. The copies of a block are started
// before the block before it is prepared, because they take longer than the products of a block.
template <class Shape>
__device__ __forceinline__ void produce_info(const typename Shape::Params& params,
                                             FusedStorage<Shape>& memory) {
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
