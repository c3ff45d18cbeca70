// What the kernel for all gradients (attend_backward_fused.cuh) is told, how large its tiles are, and what
// its warpgroups share.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/blocks.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/hopper/tile_order.cuh"
#include "kernels/cuda/mma_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// How dk and dv are written: each row by itself, or 16 rows at once, fp32 or rounded to the dtype of k.
enum class KeyRows { one_by_one, sums, rounded };

struct FusedParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  CUtensorMap dk, dv;  // of 16 rows
  KeyRows key_rows = KeyRows::one_by_one;
  CUtensorMap dq;                   // of fp32, 64 rows x 64 columns
  bool reduces_tiles = false;       // dq has a tensor map
  TileOrder order;                  // of tiles of keys, for every `heads_of_tile` query heads one
  int heads_of_tile = 1;            // of those that share a key head
  bool shares_keys = false;         // not all that do: dk and dv are added to, whatever the call says
  std::int32_t* counter = nullptr;  // of the tiles taken so far; null: every grid-th tile is a block's own
  int blocks = 1;                   // of the grid
  float scale_log2 = 0;
};

template <int D>
struct FusedShape {
  static constexpr int consumers = 2;  // warpgroups
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int keys = 64 * consumers;
  static constexpr int queries = D == 64 ? 128 : 64;  // of a block
  static constexpr int stages = 2;
  // Facts of blocks live longer than their rows: dq of a block is added while the next one's products run,
  // and the producers look two blocks ahead, which makes six.
  static constexpr int facts = 8;
  // Tiles of keys from the one whose dk is on its way, by the next one, whose rows are there, to those that
  // the producers look ahead to, a block each at the least: five.
  static constexpr int tiles = 8;
  static constexpr int producer_registers = 40, consumer_registers = 232;
  static constexpr int key_bytes = 64 * D * 2, key_half = 64 * 128;  // of 64 keys; of their first 64 columns
  static constexpr int query_bytes = queries * D * 2, query_half = queries * 128;
  static_assert(queries == 64 || D == 64, "boxes of 64 rows, one behind the other, make a block");
};

// lse in units of log2 (+inf where the row has no gradient) and minus delta of two queries.
struct alignas(16) QueryPair {
  float2 lse;
  float2 minus_delta;
};

__device__ __forceinline__ float lse_of(const QueryPair* pairs, int query) {
  return reinterpret_cast<const float*>(pairs)[query / 2 * 4 + query % 2];
}

// What consumers need to know of a block of queries.
enum BlockFlags : int {
  block_live = 1,           // else: there are no more
  block_clean = 2,          // every one of its rows is a query with a gradient
  block_before_clean = 32,  // likewise the block before
  block_masked = 4,         // not all pairs with the tile's keys are live
  block_first = 8,          // of its tile of keys
  block_last = 16,          // likewise
};

// Instead of the place of a block's facts, whose sums of dq were staged: nothing was; nor will be.
constexpr int staged_nothing = -1, staged_end = -2;

// A tile of keys at hand.
struct KeyTile {
  WorkTile rows;
  DeviceSegment segment;  // the first of its list
  int kv_head;
  int first_head, stop_head;  // its query heads
};

template <int D>
struct alignas(1024) FusedMemory {
  using Shape = FusedShape<D>;
  unsigned char k[Shape::consumers][Shape::key_bytes], v[Shape::consumers][Shape::key_bytes];
  unsigned char q[Shape::stages][Shape::query_bytes], dout[Shape::stages][Shape::query_bytes];
  // dk and dv leave by way of slopes; at head size 128 dv by way of queries, dk of slopes and sums.
  // dS^T, [query / 64][key][64 queries] of 16 bits with the 128-byte swizzle.
  unsigned char slopes[2][Shape::queries / 64][Shape::keys * 128];
  // 64 x 64 sums of dq of each consumer: [column / 32][row][32 columns] of fp32, with the swizzle.
  unsigned char sums[Shape::consumers][64 * 64 * 4];
  QueryPair pairs[Shape::facts][Shape::queries / 2];
  // Among the producers; for the consumers, where `segment` is a place in `tile`.
  Block found[Shape::facts], bounds[Shape::facts];
  int flags[Shape::facts];
  int tile_of[Shape::facts];     // where in `tile`
  int staged[Shape::consumers];  // whose sums
  KeyTile tile[Shape::tiles];
  unsigned char live[Shape::keys];  // whether a key has a live pair; each for the warp that owns it
  std::uint64_t keys_full, keys_empty;
  std::uint64_t queries_free;  // dv has left, if it goes that way
  std::uint64_t full[Shape::stages], empty[Shape::stages];
  std::uint64_t walked[Shape::facts], facts_full[Shape::facts];
  std::uint64_t slopes_full[2], slopes_empty[2];
  std::uint64_t sums_full[Shape::consumers], sums_empty[Shape::consumers];
};

template <int D>
__device__ __forceinline__ void init_barriers(FusedMemory<D>& memory) {
  using Shape = FusedShape<D>;
  constexpr int warps = 4 * Shape::consumers;
  init_barrier(shared_address(&memory.keys_full), 1);
  init_barrier(shared_address(&memory.keys_empty), warps);
  init_barrier(shared_address(&memory.queries_free), warps);
  for (int n = 0; n < Shape::facts; ++n) {
    init_barrier(shared_address(&memory.walked[n]), 1);
    init_barrier(shared_address(&memory.facts_full[n]), 32);
  }
  for (int n = 0; n < 2; ++n) {
    init_barrier(shared_address(&memory.full[n]), 1);
    init_barrier(shared_address(&memory.empty[n]), warps);
    init_barrier(shared_address(&memory.slopes_full[n]), warps);
    init_barrier(shared_address(&memory.slopes_empty[n]), warps);
    init_barrier(shared_address(&memory.sums_full[n]), 4);
    init_barrier(shared_address(&memory.sums_empty[n]), 1);
  }
  fence_barrier_init();
}

}  // namespace cplab::kernels::cuda::hopper
