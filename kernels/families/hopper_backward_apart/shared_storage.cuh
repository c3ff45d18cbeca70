// Parameters, tile shape and shared memory of the deterministic backward kernel.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward_apart/shape.hpp"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/lse_delta.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/families/parts/hopper/tile_scheduler.cuh"
#include "kernels/families/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda::hopper {

struct DeterministicParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;                                      // boxes of 64 rows
  CUtensorMap q_of_block, k_of_block, v_of_block, dout_of_block;  // of a block's rows, if these are fewer
  CUtensorMap lse, delta;                                         // boxes of a block's queries x 4 heads
  bool loads_lse_delta_by_tma = false;
  CUtensorMap dq, dk, dv;                                  // boxes of 16 rows
  bool stores_dq_tiles = false, stores_dkv_tiles = false;  // by TMA; else row by row
  // Which maps are of single column groups: of q and k; of v and dout; of dq; of dk and of dv.
  bool single_key_groups = false, single_value_groups = false;
  bool single_dq_groups = false, single_dk_groups = false, single_dv_groups = false;
  // Tiles of keys, which come first, all of them for dk and then for dv if Shape::splits_dkv; tiles of
  // queries.
  TileScheduler k_scheduler, q_scheduler;
  int key_tiles = 0;                // how many of keys in all
  std::int32_t* counter = nullptr;  // of tiles fetched so far; null: block b takes tiles b, b + blocks, ...
  int blocks = 1;                   // of the persistent grid
  float scale_log2 = 0;

  __device__ __forceinline__ int tiles() const { return key_tiles + q_scheduler.tiles; }
};

// The gradients that a tile computes: dq, if its rows are queries, or dk and dv, or one of them, if they are
// keys.
enum class Gradient { dq, dkv, dk, dv };

template <Gradient gradient>
constexpr Owner owner_of = gradient == Gradient::dq ? Owner::queries : Owner::keys;

template <int D>
struct DeterministicShape {
  static constexpr int head_size = D, value_size = hopper_backward_apart_sizes(D).value;
  static constexpr bool splits_dkv = hopper_backward_apart_splits_dkv(D);
  static constexpr int consumers = 2;  // warpgroups of 64 rows
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;                                             // of a tile
  static constexpr int columns = hopper_backward_apart_columns(D);                        // of a block
  static constexpr int row_box_rows = 64, column_box_rows = columns < 64 ? columns : 64;  // of tensor maps
  static constexpr int stages = hopper_backward_apart_stages(D);                          // of X and Y
  // Buffers for A and B of a tile: they are loaded while the tile before is computed, and its results
  // are staged there. Beyond head size 128 there is room for one, which a tile gives back at its end.
  static constexpr int owned_stages = splits_dkv ? 1 : 2;
  // Tiles that are known at once: from the one whose results are staged to those whose blocks are
  // being loaded, at least one block each.
  static constexpr int tiles = 8;
  static constexpr int producer_registers = 40, consumer_registers = 232;  // of 504 in all
  // The bytes of 64 owned rows of A and of B, and of their first 64 columns; those of `columns` rows of X and
  // of Y, and of their first 64 columns.
  static constexpr int a_bytes = 64 * D * 2, b_bytes = 64 * value_size * 2, owned_half_bytes = 64 * 128;
  static constexpr int x_bytes = columns * D * 2, y_bytes = columns * value_size * 2;
  static constexpr int block_half_bytes = columns * 128;
  static_assert(value_size <= D, "any gradient may be staged where A was");
};

// A tile of queries of a query head, or of keys of a key head.
struct OwnedTile {
  WorkTile rows;
  int head;
  Gradient gradient;
};

// What consumers and the warp that loads lse need to know of a block.
enum OwnedBlockFlags : int {
  owned_live = 1,  // 0: a tile without live pairs, whose results are 0
  owned_last = 2,  // of its tile
  owned_end = 4,   // there are no more tiles
};

template <class Shape>
struct alignas(1024) DeterministicStorage {
  unsigned char a[Shape::owned_stages][Shape::consumers][Shape::a_bytes];
  unsigned char b[Shape::owned_stages][Shape::consumers][Shape::b_bytes];
  unsigned char x[Shape::stages][Shape::x_bytes], y[Shape::stages][Shape::y_bytes];
  LoadedLseDelta<Shape::columns> loaded;
  // For dk and dv: lse and delta of the block's queries. lse is in units of log2, and +inf where the
  // row has no gradient.
  float lse[Shape::stages][Shape::columns], delta[Shape::stages][Shape::columns];
  // For dq: lse and delta of the tile's rows, as they are in memory.
  float row_lse[Shape::tiles][Shape::rows], row_delta[Shape::tiles][Shape::rows];
  Block bounds[Shape::stages];
  int flags[Shape::stages], tile_of[Shape::stages];
  int unclean[Shape::stages];  // whether X and Y have rows that may hold NaN
  OwnedTile tile[Shape::tiles];
  std::uint64_t owned_full[Shape::owned_stages], owned_empty[Shape::owned_stages];
  std::uint64_t full[Shape::stages], empty[Shape::stages];
  // A phase ends when bounds and flags of a block have been written.
  std::uint64_t block_known[Shape::stages];
  std::uint64_t loaded_full;
};

template <class Shape>
__device__ __forceinline__ void init_barriers(DeterministicStorage<Shape>& memory) {
  constexpr int warps = 4 * Shape::consumers;
  for (int n = 0; n < Shape::owned_stages; ++n) {
    init_barrier(shared_address(&memory.owned_full[n]), 1);
    init_barrier(shared_address(&memory.owned_empty[n]), warps);
  }
  for (int n = 0; n < Shape::stages; ++n) {
    // The thread that starts the copies arrives, and the 32 lanes of the warp that loads lse and
    // delta.
    init_barrier(shared_address(&memory.full[n]), 1 + 32);
    init_barrier(shared_address(&memory.empty[n]), 32 * warps);
    init_barrier(shared_address(&memory.block_known[n]), 1);
  }
  init_barrier(shared_address(&memory.loaded_full), 1);
  fence_barrier_init();
}

// lse in units of log2. A row whose lse is -inf has no gradient: +inf makes its P 0.
__device__ __forceinline__ float lse_log2(float lse) {
  return lse == -infinity() ? infinity() : lse * log2_e;
}

}  // namespace cplab::kernels::cuda::hopper
