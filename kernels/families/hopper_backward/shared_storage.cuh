// The fused backward kernel's parameters, tile shape and shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/families/fits.hpp"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/lse_delta.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/families/parts/hopper/tile_scheduler.cuh"
#include "kernels/families/parts/segment_blocks.cuh"
#include "kernels/tiles/score_params.hpp"

namespace cplab::kernels::cuda::hopper {

// How a warp writes its rows of dk and dv. Tiles are 16 rows at once, in fp32 or rounded to the dtype of k.
// TMA writes them, but at head size 64 consumers store rounded ones themselves (dkv_rows.cuh). For
// added_tiles TMA first loads what the rounded sums are added to; that is an instance of the kernel of its
// own (Shape::adds_tiles), because one that asked at run time took 1.5 % longer where it only stored.
enum class DkvWrite { row_by_row, fp32_tiles, rounded_tiles, added_tiles };

inline DkvWrite dkv_write(const AttendBackwardParams& call) {
  if (!writes_dkv_by_tma(call)) return DkvWrite::row_by_row;
  if (call.dk.dtype == DType::fp32) return DkvWrite::fp32_tiles;
  return call.write_dk == Write::add ? DkvWrite::added_tiles : DkvWrite::rounded_tiles;
}

// The kernel's parameters. DqSum is the way in which many tiles of keys sum dq, a policy (dq_sum_*.cuh); what
// it alone needs to know is dq_sum. changes: the kernel changes scores.
struct NoScoreParams {};
template <class DqSum, bool changes = false>
struct FusedParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  CUtensorMap lse, delta;               // boxes of the block's queries x 4 heads
  bool loads_lse_delta_by_tma = false;  // lse and delta have tensor maps
  CUtensorMap dk, dv;                   // boxes of 16 rows
  DkvWrite dkv_write = DkvWrite::row_by_row;
  CUtensorMap dq;               // fp32, boxes of dq_rows rows x 64 columns
  bool adds_dq_by_tma = false;  // dq has a tensor map
  bool adds_every_row = false;  // -0 is added to rows without a gradient (fits.hpp)
  // Which tensor maps are of single column groups (column_groups.cuh): of q and k; of v and dout; of dq; of
  // dk and of dv.
  bool single_key_groups = false, single_value_groups = false;
  bool single_dq_groups = false, single_dk_groups = false, single_dv_groups = false;
  TileScheduler scheduler;          // numbers tiles of keys, each once for every heads_of_tile query heads
  int heads_of_tile = 1;            // all query heads that share the tile's key head, or one
  bool splits_query_heads = false;  // a tile has one of them: several thread blocks add to dk and dv
  std::int32_t* counter = nullptr;  // of tiles drawn so far; null: block b takes tiles b, b + blocks, ...
  int blocks = 1;                   // thread blocks of the persistent grid
  float scale_log2 = 0;
  float ds_factor = 1;  // what dP and delta are multiplied by in dS
  [[no_unique_address]] std::conditional_t<changes, ScoreParams, NoScoreParams> scores;
  [[no_unique_address]] typename DqSum::Params dq_sum;
};

// The shape of a tile. It has 64 keys for each consumer warpgroup: two, or one for calls that have few tiles.
// changes: scores are more than q.k (ScoreParams).
template <int D, class Way, bool adds = false, int warpgroups = 2, bool changes = false>
struct FusedShape {
  using Adding = FusedShape<D, Way, true, warpgroups, changes>;
  using DqSum = Way;  // UnorderedDqSum, OrderedDqSum or ChainedDqSum
  using Params = FusedParams<DqSum, changes>;
  static constexpr bool changes_scores = changes;
  static constexpr int head_size = D;
  static constexpr bool adds_tiles = adds;      // dk and dv are written as DkvWrite::added_tiles
  static constexpr int consumers = warpgroups;  // each has 64 of the keys
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int keys = 64 * consumers;
  static constexpr int queries = D == 64 ? 128 : 64;  // in a block
  static constexpr int query_box_rows = 64;           // rows that TMA loads at once
  // Blocks of Q and dO that shared memory holds. One consumer alone is done with a block in half the time,
  // which is not longer than the next block's copies may take, so it has one more block on the way.
  static constexpr int stages = consumers == 1 ? 3 : 2;
  // Tiles of dS that shared memory holds. With two, dq of a block is computed while the next block is, so
  // that no consumer waits for the other's dS, and one alone has products in flight while it computes dS.
  static constexpr int ds_tiles = 2;
  // Whether the product for dk of a block is waited for only after the first products of the next block have
  // been started: the tensor cores then have something to do. With two consumers they have the other one's
  // products.
  static constexpr bool late_dk = consumers == 1;
  // Whether the last step of K Q^T keeps its 16 columns of K in registers for the whole tile. The products of
  // a block then read 4 of 256 KiB less from shared memory, whose bandwidth is the limit. There are registers
  // for one step, if delta is read where dS is computed. (Without this nvcc 13.0 spills 44 bytes, which the
  // build refuses.)
  static constexpr bool keeps_k = D == 128 && consumers == 2;
  // How consumers share the product for dq: each takes half of the block's queries; or else half of the
  // columns, and a consumer alone takes all of them.
  static constexpr bool shares_queries = D == 64;
  static constexpr int dq_rows = shares_queries ? queries / consumers : queries;  // each consumer has
  // dq of a block leaves in parts of 64 rows and 64 columns; each is staged, and added to memory, by itself.
  static constexpr int dq_parts = 2, dq_parts_of_consumer = dq_parts / consumers;
  // Blocks whose bounds, flags, lse and delta (together: BlockInfo) shared memory holds. They are needed
  // longer than Q and dO: dq of a block is stored while the next one's products run, and the producers look
  // two blocks ahead. That makes six blocks, or seven with three stages; eight, so that an index is a mask.
  static constexpr int info_stages = 8;
  // Blocks whose lse and delta shared memory holds as TMA loads them: one's are prepared while the next one's
  // come.
  static constexpr int loaded_stages = 2;
  // Tiles of keys that are known at once: one whose dk is being stored, the next one, whose K and V have
  // come, and those that the producers look ahead to, each of at least one block. That makes five; eight, for
  // a mask.
  static constexpr int tiles = 8;
  // Whether the producer warpgroup gives registers to two consumers, by setmaxnreg: 40 + 2 x 232 = 504. A
  // consumer alone needs none: 256 threads have up to 255 registers each from the start.
  static constexpr bool moves_registers = consumers == 2;
  static constexpr int producer_registers = 40, consumer_registers = 232;
  // The bytes of 64 keys, and of their first 64 columns; those of a block of queries, and of its first 64
  // columns.
  static constexpr int key_bytes = 64 * D * 2, key_half_bytes = 64 * 128;
  static constexpr int query_bytes = queries * D * 2, query_half_bytes = queries * 128;
  static_assert(consumers == 2 || (consumers == 1 && D == 128));
  static_assert(dq_rows == 64, "a part of dq: 64 rows of 64 columns");
  // dS of a block lies as [query / 64][key][64 queries].
  static constexpr int ds_groups = queries / 64;
  static constexpr int ds_group_bytes = keys * 128;
  static constexpr int ds_bytes = ds_tiles * ds_groups * ds_group_bytes;
  static constexpr int dq_bytes = dq_rows * 64 * 4;  // a part of dq
  // Whether there is room to stage dk and dv in fp32 at the same time, where dS and the staged dq were. Else
  // dv is staged first, where Q and dO were, and dk then there (dkv_epilogues.cuh, also for rounded ones).
  static constexpr int dkv_bytes = keys * D * 4;
  static constexpr bool stages_together = 2 * dkv_bytes <= ds_bytes + dq_parts * dq_bytes;
  // Whether consumers store rounded dk and dv themselves. Nothing is staged where Q and dO are then.
  static constexpr bool stores_rounded_rows = stages_together && !adds;
  static constexpr int staged_dkv_bytes = stages_together ? 2 * dkv_bytes : dkv_bytes;
  static_assert(stages_together || dkv_bytes <= 2 * stages * query_bytes);
};

// lse and delta of two queries, as consumers read them. lse is in units of log2, and +inf where the query has
// no gradient, so that P is 0.
struct alignas(16) LseDeltaPair {
  float2 lse;
  float2 minus_delta;  // -delta * ds_factor
};

__device__ __forceinline__ float lse_of(const LseDeltaPair* lse_delta, int query) {
  return reinterpret_cast<const float*>(lse_delta)[query / 2 * 4 + query % 2];
}

// What consumers need to know about a block of queries beside its bounds, as bits.
enum BlockFlags : int {
  block_live = 1,           // there is such a block; without it there are no more
  block_clean = 2,          // all of its rows in the tensor are queries with a gradient
  block_before_clean = 32,  // block_clean of the block before
  block_masked = 4,         // not all pairs with the tile's keys are live
  block_first = 8,          // the block is the first of its tile of keys
  block_last = 16,          // the block is the last of its tile of keys
};

// The values that dq_staged has beside numbers of a BlockInfo: nothing was staged for this block, or there
// are no more blocks.
constexpr int dq_nothing_staged = -1, dq_end = -2;

// A tile of keys that the thread block works on, or will next.
struct KeyTile {
  WorkTile rows;
  DeviceSegment segment;  // the tile's first
  int kv_head;
  int first_head, stop_head;  // the query heads that the tile walks over
};

// Shared memory for dk and dv that are added to what TMA loads: a barrier for each warp, whose phase ends
// when the warp's old rows have come. And for dk and dv that are not: nothing.
template <int warps>
struct AddedDkvStorage {
  std::uint64_t old_full[warps];
  __device__ __forceinline__ void init_barriers() {
    for (std::uint64_t& barrier : old_full) init_barrier(shared_address(&barrier), 1);
  }
};
struct StoredDkvStorage {
  __device__ __forceinline__ void init_barriers() {}
};

// Of alibi, by block: the slope of its query head, and the shift of its segment (ScoreParams).
struct ScoreLine {
  float slope;
  int shift;
};
template <int blocks>
struct ChangedScoreStorage {
  ScoreLine of[blocks];
};
struct PlainScoreStorage {};

template <class Shape>
struct alignas(1024) FusedStorage {
  unsigned char k[Shape::consumers][Shape::key_bytes], v[Shape::consumers][Shape::key_bytes];
  unsigned char q[Shape::stages][Shape::query_bytes], dout[Shape::stages][Shape::query_bytes];
  // Tiles of dS, in 16 bits with the 128-byte swizzle. At the end of a tile of keys fp32 dk, or dk and dv,
  // are staged from here on.
  unsigned char ds[Shape::ds_tiles][Shape::ds_groups][Shape::ds_group_bytes];
  // Each part of dq for TMA, in fp32, swizzled: [column / 32][row][32 columns].
  unsigned char dq_staging[Shape::dq_parts + Shape::DqSum::more_dq_tiles][Shape::dq_bytes];
  unsigned char staged_dkv_rest[std::max(
      16, Shape::staged_dkv_bytes - Shape::ds_bytes - Shape::dq_parts * Shape::dq_bytes)];
  LoadedLseDelta<Shape::queries> loaded[Shape::loaded_stages];
  LseDeltaPair lse_delta[Shape::info_stages][Shape::queries / 2];
  // Bits that say which rows of a block are queries with a gradient.
  std::uint32_t with_gradient[Shape::info_stages][Shape::queries / 32];
  // The bounds of blocks: `found` for the producer warpgroup, `bounds` for consumers. In `bounds` the field
  // `segment` is the number of the block's KeyTile.
  Block found[Shape::info_stages], bounds[Shape::info_stages];
  int flags[Shape::info_stages];
  int tile_of[Shape::info_stages];  // the number of each block's KeyTile
  int dq_staged[Shape::dq_parts];   // the BlockInfo of the block whose dq is staged
  KeyTile tile[Shape::tiles];
  // Whether each key has a live pair. Only the warp that owns the key writes and reads this.
  unsigned char live[Shape::keys];
  std::uint64_t kv_full, kv_empty;
  std::uint64_t q_free;  // what was staged where Q and dO are has been read; unused if stores_rounded_rows
  std::uint64_t full[Shape::stages], empty[Shape::stages];
  std::uint64_t found_full[Shape::info_stages], info_full[Shape::info_stages];
  std::uint64_t loaded_full[Shape::loaded_stages];
  std::uint64_t ds_full[Shape::ds_tiles], ds_empty[Shape::ds_tiles];
  std::uint64_t dq_full[Shape::dq_parts], dq_empty[Shape::dq_parts];
  [[no_unique_address]] std::conditional_t<Shape::adds_tiles, AddedDkvStorage<4 * Shape::consumers>,
                                           StoredDkvStorage>
      dkv;
  [[no_unique_address]] typename Shape::DqSum::template Storage<Shape> dq_sum;
  [[no_unique_address]] std::conditional_t<Shape::changes_scores, ChangedScoreStorage<Shape::info_stages>,
                                           PlainScoreStorage>
      scores;
};

constexpr int most_shared_bytes = 227 << 10;  // that a thread block may have on Hopper

template <class Shape>
__device__ __forceinline__ void init_barriers(FusedStorage<Shape>& memory) {
  static_assert(sizeof(FusedStorage<Shape>) <= most_shared_bytes);
  constexpr int warps = 4 * Shape::consumers;
  init_barrier(shared_address(&memory.kv_full), 1);
  // Where lanes read K themselves, all of them arrive: compute-sanitizer's racecheck does not see that one
  // lane's arrival, after a __syncwarp(), orders what the other lanes have read.
  init_barrier(shared_address(&memory.kv_empty), Shape::keeps_k ? 32 * warps : warps);
  init_barrier(shared_address(&memory.q_free), Shape::adds_tiles ? 32 * warps : warps);
  for (int n = 0; n < Shape::info_stages; ++n) {
    init_barrier(shared_address(&memory.found_full[n]), 1);
    init_barrier(shared_address(&memory.info_full[n]), 32);
  }
  for (int n = 0; n < 2; ++n) {
    init_barrier(shared_address(&memory.full[n]), 1);
    init_barrier(shared_address(&memory.empty[n]), 32 * warps);
    init_barrier(shared_address(&memory.loaded_full[n]), 1);
    init_barrier(shared_address(&memory.dq_full[n]), 4);
    init_barrier(shared_address(&memory.dq_empty[n]), 1);
    init_barrier(shared_address(&memory.ds_full[n]), warps);
    init_barrier(shared_address(&memory.ds_empty[n]), warps);
  }
  for (int n = 2; n < Shape::stages; ++n) {
    init_barrier(shared_address(&memory.full[n]), 1);
    init_barrier(shared_address(&memory.empty[n]), 32 * warps);
  }
  memory.dkv.init_barriers();
  memory.dq_sum.init_barriers();
  fence_barrier_init();
}

}  // namespace cplab::kernels::cuda::hopper
