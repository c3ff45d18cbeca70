// The fused backward kernel's parameters, tile shape and shared memory.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/pipeline.cuh"
#include "kernels/cuda/hopper/parts/tile_scheduler.cuh"
#include "kernels/cuda/parts/segment_blocks.cuh"
#include "kernels/work/turns.hpp"

namespace cplab::kernels::cuda::hopper {

// How dk and dv are written: 16 rows at once by TMA, fp32 or rounded to the dtype of k, or row by row.
enum class DkvWrite { row_by_row, fp32_tiles, rounded_tiles };

struct FusedParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  CUtensorMap dk, dv;  // boxes of 16 rows
  DkvWrite dkv_write = DkvWrite::row_by_row;
  CUtensorMap dq;                   // fp32, boxes of 64 rows x 64 columns
  bool adds_dq_by_tma = false;      // dq has a tensor map
  TileScheduler scheduler;          // of tiles of keys, one for every `heads_of_tile` query heads
  int heads_of_tile = 1;            // query heads of a tile: all that share its key head, or one
  bool splits_query_heads = false;  // a tile has not all query heads of its key head: dk and dv are added to
  std::int32_t* counter = nullptr;  // of tiles fetched so far; null: block b takes tiles b, b + blocks, ...
  int blocks = 1;                   // of the persistent grid
  float scale_log2 = 0;
};

template <int D>
struct FusedShape {
  static constexpr int consumers = 2;  // warpgroups of 64 keys
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int keys = 64 * consumers;
  static constexpr int queries = D == 64 ? 128 : 64;  // of a block
  static constexpr int stages = 2;
  // BlockInfo lives longer than Q and dO: dq of a block is stored while the next one's products run, and the
  // producers look two blocks ahead, which makes six.
  static constexpr int info_stages = 8;
  // From the tile whose dk is being stored, by the next one, whose K and V are there, to those that the
  // producers look ahead to, at least a block each: five.
  static constexpr int tiles = 8;
  static constexpr int producer_registers = 40, consumer_registers = 232;
  // Bytes of 64 keys and of their first 64 columns; of a block of queries and of its first 64 columns.
  static constexpr int key_bytes = 64 * D * 2, key_half_bytes = 64 * 128;
  static constexpr int query_bytes = queries * D * 2, query_half_bytes = queries * 128;
  static_assert(keys == 16 * dkv_turns_of_tile);
  static_assert(queries == 64 || D == 64, "boxes of 64 rows, one behind the other, make a block");
};

// Of two queries: lse in units of log2, +inf where the row has no gradient, so that P is 0; and minus delta.
struct alignas(16) LseDeltaPair {
  float2 lse;
  float2 minus_delta;
};

__device__ __forceinline__ float lse_of(const LseDeltaPair* lse_delta, int query) {
  return reinterpret_cast<const float*>(lse_delta)[query / 2 * 4 + query % 2];
}

// What consumers need to know of a block of queries, beside its bounds.
enum BlockFlags : int {
  block_live = 1,           // 0: there are no more blocks
  block_clean = 2,          // all of its rows are queries with a gradient
  block_before_clean = 32,  // block_clean of the block before
  block_masked = 4,         // not all pairs with the tile's keys are live
  block_first = 8,          // the first of its tile of keys
  block_last = 16,          // the last of its tile of keys
};

// Values of dq_staged beside the number of a BlockInfo: nothing was staged for this block; there are no more
// blocks.
constexpr int dq_nothing_staged = -1, dq_end = -2;

// A tile of keys.
struct KeyTile {
  WorkTile rows;
  DeviceSegment segment;  // the first of the tile
  int kv_head;
  int first_head, stop_head;  // its query heads
};

// Of the ordered kernel, where query heads of a key head are in several thread blocks: they add to dk and dv
// one after the other.
struct DkvTurn {
  std::int32_t* counter;  // of heads that have added; null: none is on its way
  bool last;              // of the heads of the key head
};

template <int D>
struct alignas(1024) FusedStorage {
  using Shape = FusedShape<D>;
  unsigned char k[Shape::consumers][Shape::key_bytes], v[Shape::consumers][Shape::key_bytes];
  unsigned char q[Shape::stages][Shape::query_bytes], dout[Shape::stages][Shape::query_bytes];
  // dS^T, [query / 64][key][64 queries] of 16 bits with the 128-byte swizzle. Two tiles of it. In the
  // epilogue dk and dv are staged here; at head size 128 dv in q and dout, and dk here and in dq_staging.
  unsigned char ds[2][Shape::queries / 64][Shape::keys * 128];
  // 64 x 64 accumulators of dq of each consumer, for TMA: [column / 32][row][32 columns] of fp32, swizzled.
  unsigned char dq_staging[Shape::consumers][64 * 64 * 4];
  LseDeltaPair lse_delta[Shape::info_stages][Shape::queries / 2];
  // Blocks: `found` for the producers, `bounds` for the consumers; in `bounds` the field `segment` is the
  // number of its KeyTile in `tile`.
  Block found[Shape::info_stages], bounds[Shape::info_stages];
  int flags[Shape::info_stages];
  int tile_of[Shape::info_stages];  // the number of a block's KeyTile
  int dq_staged[Shape::consumers];  // which BlockInfo the staged accumulators belong to
  KeyTile tile[Shape::tiles];
  // Whether a key has a live pair; written and read by the warp that owns the key.
  unsigned char live[Shape::keys];
  std::uint64_t kv_full, kv_empty;
  std::uint64_t q_free;  // dv has been stored, if it was staged in q
  std::uint64_t full[Shape::stages], empty[Shape::stages];
  std::uint64_t found_full[Shape::info_stages], info_full[Shape::info_stages];
  std::uint64_t ds_full[2], ds_empty[2];
  std::uint64_t dq_full[Shape::consumers], dq_empty[Shape::consumers];
  // Of the ordered kernel: it is a block's turn to add to dq; a KeyTile's place in the work list; the dk and
  // dv of a warp that are on their way to memory.
  std::uint64_t dq_turn[Shape::consumers];
  int place_of_tile[Shape::tiles];
  DkvTurn dkv_turn[4 * Shape::consumers];
};

template <int D, bool ordered>
__device__ __forceinline__ void init_barriers(FusedStorage<D>& memory) {
  using Shape = FusedShape<D>;
  constexpr int warps = 4 * Shape::consumers;
  init_barrier(shared_address(&memory.kv_full), 1);
  init_barrier(shared_address(&memory.kv_empty), warps);
  init_barrier(shared_address(&memory.q_free), warps);
  for (int n = 0; n < Shape::info_stages; ++n) {
    init_barrier(shared_address(&memory.found_full[n]), 1);
    init_barrier(shared_address(&memory.info_full[n]), 32);
  }
  for (int n = 0; n < 2; ++n) {
    init_barrier(shared_address(&memory.full[n]), 1);
    init_barrier(shared_address(&memory.empty[n]), warps);
    init_barrier(shared_address(&memory.ds_full[n]), warps);
    init_barrier(shared_address(&memory.ds_empty[n]), warps);
    init_barrier(shared_address(&memory.dq_full[n]), 4);
    init_barrier(shared_address(&memory.dq_empty[n]), 1);
    if constexpr (ordered) init_barrier(shared_address(&memory.dq_turn[n]), 1);
  }
  if constexpr (ordered)
    for (DkvTurn& turn : memory.dkv_turn) turn.counter = nullptr;
  fence_barrier_init();
}

}  // namespace cplab::kernels::cuda::hopper
