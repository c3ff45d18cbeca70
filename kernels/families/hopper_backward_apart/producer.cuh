// The producer warpgroup of the deterministic backward kernel: a thread that takes tiles and loads them and
// their blocks, and a warp that loads lse and delta.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward_apart/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// The thread that takes tile after tile, walks over its segments, and loads A and B of a tile, and X
// and Y of every block. Those of the next tile are loaded while consumers finish the last one.
template <class Shape>
class DeterministicProducer {
 public:
  using Stages = PipelineIndex<Shape::stages>;
  using Owned = PipelineIndex<Shape::owned_stages>;

  __device__ __forceinline__ DeterministicProducer(const DeterministicParams& params,
                                                   DeterministicStorage<Shape>& memory)
      : params_(params), memory_(memory), tile_index_(static_cast<int>(blockIdx.x)) {}

  // Takes the thread block's first tile. It reads only tables that no kernel writes, so it need not
  // wait for the launch before.
  __device__ __forceinline__ void start() { find(0); }

  __device__ __forceinline__ void run() {
    for (int number = 0;;) {
      const int place = number % Shape::tiles;
      load_owned(number, place);
      if (memory_.tile[place].gradient == Gradient::dq)
        walk<Gradient::dq>(place);
      else
        walk<Gradient::dkv>(place);
      // The next tile is taken late, when the last blocks are being loaded: a thread block with a long
      // tile should not hold another one that nobody else can take.
      fetch_next_tile();
      if (tile_index_ >= params_.tiles()) break;
      find(++number % Shape::tiles);
    }
    const int stage = await_stage();
    memory_.flags[stage] = owned_end;
    arrive(shared_address(&memory_.block_known[stage]));
    arrive(shared_address(&memory_.full[stage]));
  }

 private:
  __device__ __forceinline__ void find(int place) {
    const bool keys = tile_index_ < params_.key_tiles;
    const bool second = Shape::splits_dkv && keys && tile_index_ >= params_.k_scheduler.tiles;
    int index, head;
    if (keys)
      params_.k_scheduler.find(second ? tile_index_ - params_.k_scheduler.tiles : tile_index_, index, head);
    else
      params_.q_scheduler.find(tile_index_ - params_.key_tiles, index, head);
    OwnedTile& tile = memory_.tile[place];
    tile.rows = (keys ? params_.call.by_k : params_.call.by_q).tiles[index];
    tile.head = head;
    if (!keys)
      tile.gradient = Gradient::dq;
    else
      tile.gradient = !Shape::splits_dkv ? Gradient::dkv : second ? Gradient::dv : Gradient::dk;
  }

  // The last fetch of all thread blocks, each of which fetches until there is none left, sets the counter
  // back to 0 for the next launch.
  __device__ __forceinline__ void fetch_next_tile() {
    if (params_.counter == nullptr) {
      tile_index_ += params_.blocks;
    } else {
      const int taken = atomic_add_one(params_.counter);
      if (taken == params_.tiles() - 1) *params_.counter = 0;
      tile_index_ = params_.blocks + taken;
    }
  }

  __device__ __forceinline__ void load_owned(int number, int place) {
    const OwnedTile& tile = memory_.tile[place];
    const bool queries = tile.gradient == Gradient::dq;
    const int stage = Owned::stage(number);
    wait(shared_address(&memory_.owned_empty[stage]), Owned::parity(number) ^ 1);
    const std::uint32_t full = shared_address(&memory_.owned_full[stage]);
    arrive_and_expect_tx(full, Shape::consumers * (Shape::a_bytes + Shape::b_bytes));
    for (int n = 0; n < Shape::consumers; ++n)
      load_columns<Shape::head_size, Shape::owned_half_bytes>(
          memory_.a[stage][n], queries ? params_.q : params_.k, tile.rows.begin + 64 * n, tile.head, full,
          params_.single_key_groups);
    for (int n = 0; n < Shape::consumers; ++n)
      load_columns<Shape::value_size, Shape::owned_half_bytes>(
          memory_.b[stage][n], queries ? params_.dout : params_.v, tile.rows.begin + 64 * n, tile.head, full,
          params_.single_value_groups);
  }

  // All `columns` columns of a tile, 64 of which are group_bytes.
  template <int columns, int group_bytes>
  static __device__ __forceinline__ void load_columns(unsigned char* into, const CUtensorMap& map, int row,
                                                      int head, std::uint32_t full, bool single_groups) {
    by_column_groups<columns / 64>(single_groups, [&](int n) {
      tma_load(shared_address(into + n * group_bytes), map, row, head, full, 0, 64 * n);
    });
  }

  __device__ __forceinline__ int await_stage() {
    const int stage = Stages::stage(count_);
    wait(shared_address(&memory_.empty[stage]), Stages::parity(count_) ^ 1);
    ++count_;
    return stage;
  }

  template <Gradient gradient>
  __device__ __forceinline__ void walk(int place) {
    constexpr bool queries = gradient == Gradient::dq;
    const OwnedTile& tile = memory_.tile[place];
    const int group = params_.call.q.heads / params_.call.k.heads;
    const DeviceSegment* const segments = queries ? params_.call.by_q.segments : params_.call.by_k.segments;
    const int first_head = queries ? params_.k_scheduler.of_kv_head.quotient(tile.head) : tile.head * group;
    const int stop_head = queries ? first_head + 1 : first_head + group;
    Block block = first_block<owner_of<gradient>>(first_head, stop_head, tile.rows, segments);
    bool more;
    do {
      const int stage = await_stage();
      memory_.bounds[stage] = block;
      memory_.tile_of[stage] = place;
      const bool live = block.live();
      block = next_block<owner_of<gradient>, Shape::columns>(block, stop_head, tile.rows, segments);
      more = block.live();
      memory_.flags[stage] = (live ? owned_live : 0) | (more ? 0 : owned_last);
      arrive(shared_address(&memory_.block_known[stage]));
      const std::uint32_t full = shared_address(&memory_.full[stage]);
      if (live)
        load_block<queries>(memory_.bounds[stage], stage, full);
      else
        arrive(full);
    } while (more);
  }

  template <bool queries>
  __device__ __forceinline__ void load_block(const Block& block, int stage, std::uint32_t full) {
    arrive_and_expect_tx(full, Shape::x_bytes + Shape::y_bytes);
    // Rows are loaded in boxes of 64, as those of a tile, but for blocks of fewer.
    const CUtensorMap& x = Shape::columns < 64 ? (queries ? params_.k_of_block : params_.q_of_block)
                                               : (queries ? params_.k : params_.q);
    const CUtensorMap& y = Shape::columns < 64 ? (queries ? params_.v_of_block : params_.dout_of_block)
                                               : (queries ? params_.v : params_.dout);
    for (int row = 0; row < Shape::columns; row += Shape::column_box_rows)
      load_columns<Shape::head_size, Shape::block_half_bytes>(
          memory_.x[stage] + row * 128, x, block.begin + row, block.head, full, params_.single_key_groups);
    for (int row = 0; row < Shape::columns; row += Shape::column_box_rows)
      load_columns<Shape::value_size, Shape::block_half_bytes>(
          memory_.y[stage] + row * 128, y, block.begin + row, block.head, full, params_.single_value_groups);
  }

  const DeterministicParams& params_;
  DeterministicStorage<Shape>& memory_;
  int tile_index_;  // the number of the tile fetched last
  int count_ = 0;   // how many blocks have been loaded
};

// The warp that loads lse and delta: of each block's queries for dk and dv, of the tile's queries for
// dq. It waits for those of a block before it looks at the next block, which may not be known until
// this one has been computed.
template <class Shape>
class LseDeltaProducer {
 public:
  using Stages = PipelineIndex<Shape::stages>;

  __device__ __forceinline__ LseDeltaProducer(const DeterministicParams& params,
                                              DeterministicStorage<Shape>& memory)
      : params_(params), memory_(memory) {}

  __device__ __forceinline__ void run() {
    bool begins_tile = true;
    for (int count = 0;; ++count) {
      const int stage = Stages::stage(count);
      wait(shared_address(&memory_.block_known[stage]), Stages::parity(count));
      const int flags = memory_.flags[stage];
      if ((flags & owned_end) != 0) return arrive(shared_address(&memory_.full[stage]));
      const OwnedTile& tile = memory_.tile[memory_.tile_of[stage]];
      const Block& block = memory_.bounds[stage];
      const bool keys = tile.gradient != Gradient::dq, live = (flags & owned_live) != 0;
      bool unclean = live && block.end - block.begin < Shape::columns;
      if (keys && live)
        unclean = load_of_block(stage, block);
      else if (!keys && begins_tile)
        load_of_tile(tile);
      if (lane() == 0) memory_.unclean[stage] = unclean;
      arrive(shared_address(&memory_.full[stage]));  // all 32 lanes arrive, each for its own writes
      begins_tile = (flags & owned_last) != 0;
    }
  }

 private:
  static __device__ __forceinline__ int lane() { return thread_index() % 32; }

  // Copies lse and delta of `rows` rows from `begin` on, number by number; 0 for rows from `end` on.
  template <int rows>
  __device__ __forceinline__ void copy(float* lse, float* delta, int head, int begin, int end) const {
#pragma unroll
    for (int n = lane(); n < rows; n += 32) {
      const bool inside = begin + n < end;
      const int read = inside ? begin + n : begin;
      cp_async_float(shared_address(lse + n), row_of<const float>(params_.call.lse, head, read), inside);
      cp_async_float(shared_address(delta + n), row_of<const float>(params_.call.delta, head, read), inside);
    }
    cp_async_commit_group();
    cp_async_wait_group<0>();
  }
  __device__ __forceinline__ void load_of_tile(const OwnedTile& tile) const {
    const int place = static_cast<int>(&tile - memory_.tile);
    copy<Shape::rows>(memory_.row_lse[place], memory_.row_delta[place], tile.head, tile.rows.begin,
                      tile.rows.end);
  }

  // Returns whether some of the block's rows are no queries with a gradient.
  __device__ __forceinline__ bool load_of_block(int stage, const Block& block) {
    // Where the first lse is read: where TMA has loaded it, or where it was copied to, which is where
    // the result goes; and how many numbers lie from one query to the next.
    const float *lse_from = memory_.lse[stage], *delta_from = memory_.delta[stage];
    int step = 1;
    if (params_.loads_lse_delta_by_tma) {
      const std::uint32_t full = shared_address(&memory_.loaded_full);
      load_lse_delta_tiles(memory_.loaded, params_.lse, params_.delta, block.begin, block.head, full);
      wait(full, loaded_++ & 1);
      lse_from = &memory_.loaded.lse[0][block.head & 3];
      delta_from = &memory_.loaded.delta[0][block.head & 3];
      step = 4;
    } else {
      copy<Shape::columns>(memory_.lse[stage], memory_.delta[stage], block.head, block.begin, block.end);
    }
    bool unclean = false;
#pragma unroll
    for (int column = lane(); column < Shape::columns; column += 32) {
      const float lse = lse_from[step * column], delta = delta_from[step * column];
      const bool empty = block.begin + column >= block.end || lse == -infinity();
      memory_.lse[stage][column] = empty ? infinity() : lse_log2(lse);
      memory_.delta[stage][column] = empty ? 0 : delta;
      unclean |= empty;
    }
    return __any_sync(all_lanes, unclean) != 0;
  }

  const DeterministicParams& params_;
  DeterministicStorage<Shape>& memory_;
  int loaded_ = 0;  // blocks whose lse and delta TMA has loaded
};

}  // namespace cplab::kernels::cuda::hopper
