// The producer of the forward kernel: one thread that walks the tiles of its thread block and loads Q, K and
// V. Q has two buffers (beyond head size 128 one), K and V as many stages as ForwardShape says; K is loaded
// one block ahead of V, across tiles too where they are long. A short tile's last V is loaded before anything
// is found out about the next tile: each such question to memory takes half a microsecond, and in a tile of
// one or two blocks that V is due soon. After a long tile the next one's Q and K, which must not wait until
// there is room for V, come first. Only the producer walks the segments: with every K it publishes the
// block's bounds and which warpgroups have a live pair in the next block.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_forward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"

namespace cplab::kernels::cuda::hopper {

// Scores that are changed are walked from the last key to the first: those of alibi fall then where a mask is
// causal, and the rows' references stay.
template <int D, int W, bool changes>
class ForwardProducer {
 public:
  using Shape = ForwardShape<D, W>;
  using KPlace = PipelinePlace<Shape::k_stages>;
  using VPlace = PipelinePlace<Shape::v_stages>;
  using Tiles = PipelineIndex<Shape::q_stages>;

  __device__ __forceinline__ ForwardProducer(const ForwardParamsOf<changes>& params,
                                             ForwardStorage<D, W>& memory)
      : params_(params), memory_(memory), tile_index_(static_cast<int>(blockIdx.x)) {}

  // The thread block's first tile. There always is one.
  __device__ __forceinline__ void start() {
    if (params_.call.work.segments != nullptr) {
      prefetch_line(params_.call.work.segments);
      prefetch_tensor_map(params_.q);
      prefetch_tensor_map(params_.k);
      prefetch_tensor_map(params_.v);
    }
    if (params_.out_write != OutWrite::row_by_row) prefetch_tensor_map(params_.out);
    begin_tile();
  }

  __device__ __forceinline__ void run() {
    for (;;) {
      // A tile has segments only if it has live pairs. They are read once Q is under way.
      if (tile_.count > 0)
        prefetch_line(params_.call.work.segments + tile_.first);
      else
        load_pending_v();  // first, because the tile after this one may have to wait
      if constexpr (Shape::q_stages > 1) load_q();
      int blocks = 0;
      Block block = first_block();
      const TileState state = block.live() ? TileState::live : TileState::without_keys;
      if (block.live())
        load_k(block);
      else
        ask_for_tile();
      flags_ = flags_of(block);
      if constexpr (Shape::q_stages == 1) load_q();
      publish_tile(state);
      while (block.live()) {
        publish_block(block);
        // Fetched as late as the next tile's loads allow: a thread block that fetches early would get a tile
        // that another one could have begun sooner.
        if (!block.live()) ask_for_tile();
        load_pending_v();
        k_ = KPlace::after(k_);
        ++blocks;
        v_pending_ = true;
        if (block.live()) load_k(block);
      }
      // The only Q is free when the tile is done, which needs that V.
      if (Shape::q_stages == 1 || blocks <= short_tile_blocks) load_pending_v();
      receive_tile();
      if (tile_index_ >= params_.scheduler.tiles) break;
      begin_tile();
    }
    load_pending_v();
    tile_ = {};
    load_q();
    publish_tile(TileState::none);
  }

 private:
  static constexpr auto short_tile_blocks = static_cast<int>(measured("short_tile_blocks"));

  __device__ __forceinline__ Block first_block() const {
    const DeviceSegment* const segments = params_.call.work.segments;
    if constexpr (changes)
      return first_block_downward<Shape::keys, Owner::queries>(0, 1, tile_, segments);
    else
      return cuda::first_block<Owner::queries>(0, 1, tile_, segments);
  }
  __device__ __forceinline__ Block block_after(const Block& block) const {
    const DeviceSegment* const segments = params_.call.work.segments;
    if constexpr (changes)
      return next_block_downward<Shape::keys, Owner::queries>(block, 1, tile_, segments);
    else
      return next_block<Owner::queries, Shape::keys>(block, 1, tile_, segments);
  }

  // All columns of a tile, 64 of which are group_bytes.
  template <int group_bytes, int columns = D>
  static __device__ __forceinline__ void load_columns(std::uint32_t into, const CUtensorMap& map, int row,
                                                      int head, std::uint32_t full, bool single_groups) {
    by_column_groups<columns / 64>(single_groups, [&](int n) {
      tma_load(into + static_cast<std::uint32_t>(n * group_bytes), map, row, head, full, 0, 64 * n);
    });
  }

  // Asks for the tile after this one; receive_tile() waits for the answer. Every thread block fetches until
  // it finds none left; the last of these fetches sets the counter back to 0 for the next launch.
  __device__ __forceinline__ void ask_for_tile() {
    if (params_.counter != nullptr) {
      tile_index_ = atomic_add_one(params_.counter);
      return;
    }
    tile_index_ += params_.blocks;
    int tile, head;
    params_.scheduler.find(tile_index_, tile, head);
    if (tile_index_ < params_.scheduler.tiles) prefetch_line(params_.call.work.tiles + tile);
  }
  __device__ __forceinline__ void receive_tile() {
    if (params_.counter == nullptr) return;
    if (tile_index_ == params_.scheduler.tiles - 1) *params_.counter = 0;
    tile_index_ += params_.blocks;
  }

  __device__ __forceinline__ void begin_tile() {
    int tile;
    params_.scheduler.find(tile_index_, tile, head_);
    tile_ = params_.call.work.tiles[tile];
    kv_head_ = params_.scheduler.of_kv_head.quotient(head_);
  }

  // Q is loaded before the tile's segments have been read, which takes as long.
  __device__ __forceinline__ void load_q() {
    const int buffer = Tiles::stage(tiles_);
    wait(shared_address(&memory_.q_empty[buffer]), Tiles::parity(tiles_) ^ 1);
    std::uint32_t into = shared_address(memory_.q[buffer][0]);
#pragma unroll 1
    for (int row = tile_.begin; row < tile_.end; row += 64, into += Shape::q_bytes)
      load_columns<Shape::q_half_bytes>(into, params_.q, row, head_, shared_address(&memory_.q_full[buffer]),
                                        params_.single_key_groups);
  }

  __device__ __forceinline__ void publish_tile(TileState state) {
    const int buffer = Tiles::stage(tiles_);
    ++tiles_;
    memory_.tile[buffer] = {tile_.begin, tile_.end, head_, state, static_cast<std::int16_t>(flags_)};
    const std::int32_t* const out_map = params_.call.out.map;
    memory_.out_distance[buffer] =
        out_map != nullptr && tile_.begin < tile_.end ? out_map[tile_.begin] - tile_.begin : 0;
    const int warpgroups = (tile_.end - tile_.begin + 63) / 64;
    arrive_and_expect_tx(shared_address(&memory_.q_full[buffer]), warpgroups * Shape::q_bytes);
  }

  // Flags of a block: bit w if warpgroup w has a live pair in it, and block_is_masked unless all pairs with
  // the tile's rows are live. Warpgroups beyond the tile's end have no rows; their bits do not matter.
  __device__ __forceinline__ int flags_of(const Block& block) const {
    if (!block.live()) return 0;
    // The rows that see a key of the block are consecutive.
    const int key_last = block.begin + Shape::keys - 1;
    const int first = max(block.row_begin, block.begin - block.high) - tile_.begin;
    const int last = min(block.row_end - 1, min(key_last, block.end - 1) - block.low) - tile_.begin;
    const int live = first <= last ? (2 << last / 64) - (1 << first / 64) : 0;
    const bool all = tile_.begin >= block.row_begin && tile_.end <= block.row_end && key_last < block.end &&
                     tile_.end - 1 + block.low <= block.begin && key_last <= tile_.begin + block.high;
    return all ? live : live | block_is_masked;
  }

  // K is loaded as soon as its block is known; its barrier also waits for publish_block().
  __device__ __forceinline__ void load_k(const Block& block) {
    const int stage = KPlace::stage(k_);
    wait(shared_address(&memory_.k_empty[stage]), KPlace::parity(k_) ^ 1);
    load_columns<Shape::k_half_bytes>(shared_address(memory_.k[stage]), params_.k, block.begin, kv_head_,
                                      shared_address(&memory_.k_full[stage]), params_.single_key_groups);
  }

  // Publishes what consumers need to know of `block`, and moves on to the tile's next block.
  __device__ __forceinline__ void publish_block(Block& block) {
    const int stage = KPlace::stage(k_);
    memory_.bounds[stage] = block;
    memory_.bounds[stage].head = kv_head_;
    if constexpr (changes) {
      if (params_.scores.shifts != nullptr)
        memory_.bounds[stage].segment = params_.scores.shifts[block.segment];
    }
    BlockInfo& info = memory_.info[stage];
    info.keys = block.end - block.begin;
    const int masked = flags_ & block_is_masked;
    block = block_after(block);
    flags_ = flags_of(block);
    info.flags = masked | (block.live() ? flags_ & ~block_is_masked : block_is_last);
    arrive_and_expect_tx(shared_address(&memory_.k_full[stage]), Shape::k_bytes);
  }

  // V of the block before, unless it has been loaded.
  __device__ __forceinline__ void load_pending_v() {
    if (!v_pending_) return;
    v_pending_ = false;
    const int stage = VPlace::stage(v_);
    const std::uint32_t full = shared_address(&memory_.v_full[stage]);
    wait(shared_address(&memory_.v_empty[stage]), VPlace::parity(v_) ^ 1);
    arrive_and_expect_tx(full, Shape::v_bytes);
    const Block& block = memory_.bounds[KPlace::stage(KPlace::before(k_))];
    load_columns<Shape::k_half_bytes, Shape::value_size>(shared_address(memory_.v[stage]), params_.v,
                                                         block.begin, block.head, full,
                                                         params_.single_value_groups);
    v_ = VPlace::after(v_);
  }

  const ForwardParamsOf<changes>& params_;
  ForwardStorage<D, W>& memory_;
  int tile_index_;  // of this tile; once asked for, of the next one
  WorkTile tile_;
  int head_ = 0, kv_head_ = 0;
  int tiles_ = 0;           // published
  int k_ = 0, v_ = 0;       // places of the next block's K and of the next V
  int flags_ = 0;           // of the block to be published next
  bool v_pending_ = false;  // V of the last block is still to be loaded
};

}  // namespace cplab::kernels::cuda::hopper
