// The fused backward kernel's parameters, tile shape and shared memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/lse_delta.cuh"
#include "kernels/cuda/hopper/parts/pipeline.cuh"
#include "kernels/cuda/hopper/parts/tile_scheduler.cuh"
#include "kernels/cuda/parts/segment_blocks.cuh"
#include "kernels/families/fits.hpp"

namespace cplab::kernels::cuda::hopper {

// How dk and dv are written: 16 rows at once, fp32 or rounded to the dtype of k, or row by row. TMA does the
// former, but for rounded ones at head size 64, which consumers store (epilogue.cuh).
// added_tiles: rounded, but TMA first loads what the sums are added to. That is another instance of the
// kernel (Shape::adds_tiles): one that asked at run time took 1.5 % longer where it only stores.
enum class DkvWrite { row_by_row, fp32_tiles, rounded_tiles, added_tiles };

inline DkvWrite dkv_write(const AttendBackwardParams& call) {
  if (!writes_dkv_by_tma(call)) return DkvWrite::row_by_row;
  if (call.dk.dtype == DType::fp32) return DkvWrite::fp32_tiles;
  return call.write_dk == Write::add ? DkvWrite::added_tiles : DkvWrite::rounded_tiles;
}

// DqSum: the way in which dq is summed (UnorderedDqSum, OrderedDqSum, ChainedDqSum).
template <class DqSum>
struct FusedParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  CUtensorMap lse, delta;               // boxes of the block's queries x 4 heads
  bool loads_lse_delta_by_tma = false;  // they have tensor maps
  CUtensorMap dk, dv;                   // boxes of 16 rows
  DkvWrite dkv_write = DkvWrite::row_by_row;
  CUtensorMap dq;                   // fp32, boxes of dq_rows rows x 64 columns
  bool adds_dq_by_tma = false;      // dq has a tensor map
  bool adds_every_row = false;      // even those without a gradient (fits.hpp)
  TileScheduler scheduler;          // of tiles of keys, one for every `heads_of_tile` query heads
  int heads_of_tile = 1;            // query heads of a tile: all that share its key head, or one
  bool splits_query_heads = false;  // a tile has not all query heads of its key head: dk and dv are added to
  std::int32_t* counter = nullptr;  // of tiles fetched so far; null: block b takes tiles b, b + blocks, ...
  int blocks = 1;                   // of the persistent grid
  float scale_log2 = 0;
  float ds_factor = 1;  // of dP and delta in dS
  [[no_unique_address]] typename DqSum::Params dq_sum;
};

// Two consumer warpgroups, or one: tiles of half as many keys, for calls that have few tiles.
template <int D, class Way, bool adds = false, int warpgroups = 2>
struct FusedShape {
  using Adding = FusedShape<D, Way, true, warpgroups>;
  using DqSum = Way;  // of summing dq: UnorderedDqSum, OrderedDqSum, ChainedDqSum
  using Params = FusedParams<DqSum>;
  static constexpr int head_size = D;
  static constexpr bool adds_tiles = adds;      // DkvWrite::added_tiles, else any other
  static constexpr int consumers = warpgroups;  // of 64 keys
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int keys = 64 * consumers;
  static constexpr int queries = D == 64 ? 128 : 64;  // of a block
  static constexpr int query_box_rows = 64;           // of tensor maps
  // Of Q and dO. A turn of one consumer is half as long, and no longer than the copies of a block may take.
  static constexpr int stages = consumers == 1 ? 3 : 2;
  // Tiles of dS in shared memory. With two, dq of a block is computed in the turn of the next one, so that no
  // consumer waits for the other's dS, and one alone has products in flight while it computes dS.
  static constexpr int ds_tiles = 2;
  // The product for dk of a block is waited for in the turn of the next one, behind whose first products it
  // is in flight. With two consumers the other one's products fill that time.
  static constexpr bool late_dk = consumers == 1;
  // The last step of K Q^T has its 16 columns of K in registers for as long as the tile takes: a block's
  // products read 4 of 256 KiB less of shared memory, which binds. Registers suffice for one step, if delta
  // is read where dS is computed. (Without it nvcc 13.0 spills 44 bytes here, which the build refuses.)
  static constexpr bool keeps_k = D == 128 && consumers == 2;
  // Whether a consumer computes dq of half of the queries; else half of the columns, or, alone, all of them.
  static constexpr bool shares_queries = D == 64;
  static constexpr int dq_rows = shares_queries ? queries / consumers : queries;  // of a consumer
  // Parts of dq of 64 columns: each is staged and added by itself, by a thread of its own.
  static constexpr int dq_parts = 2, dq_parts_of_consumer = dq_parts / consumers;
  // BlockInfo lives longer than Q and dO: dq of a block is stored while the next one's products run, and the
  // producers look two blocks ahead, which makes six, or seven with three stages; eight, so that an index
  // is a mask.
  static constexpr int info_stages = 8;
  // Of lse and delta as TMA loads them: the next block's come while one's are prepared.
  static constexpr int loaded_stages = 2;
  // From the tile whose dk is being stored, by the next one, whose K and V are there, to those that the
  // producers look ahead to, at least a block each: five.
  static constexpr int tiles = 8;
  // Of 504 in all. One consumer needs none of the producer's: 256 threads have up to 255 each from the start.
  static constexpr bool moves_registers = consumers == 2;
  static constexpr int producer_registers = 40, consumer_registers = 232;
  // Bytes of 64 keys and of their first 64 columns; of a block of queries and of its first 64 columns.
  static constexpr int key_bytes = 64 * D * 2, key_half_bytes = 64 * 128;
  static constexpr int query_bytes = queries * D * 2, query_half_bytes = queries * 128;
  static_assert(consumers == 2 || (consumers == 1 && D == 128));
  static_assert(dq_rows == 64, "a part of dq: 64 rows of 64 columns");
  // dS of a block: [query / 64][key][64 queries].
  static constexpr int ds_groups = queries / 64;
  static constexpr int ds_group_bytes = keys * 128;
  static constexpr int ds_bytes = ds_tiles * ds_groups * ds_group_bytes;
  static constexpr int dq_bytes = dq_rows * 64 * 4;  // of a part
  // In the epilogue fp32 dk and dv are staged where dS and the staged dq were, if there is room for both;
  // else dv is staged first, where Q and dO were, and dk then there. Rounded ones: dkv_staging.cuh.
  static constexpr int dkv_bytes = keys * D * 4;
  static constexpr bool stages_together = 2 * dkv_bytes <= ds_bytes + dq_parts * dq_bytes;
  // Consumers store rounded dk and dv themselves (epilogue.cuh), and nothing is staged where Q and dO are.
  static constexpr bool stores_rounded_rows = stages_together && !adds;
  static constexpr int staged_dkv_bytes = stages_together ? 2 * dkv_bytes : dkv_bytes;
  static_assert(stages_together || dkv_bytes <= 2 * stages * query_bytes);
};

// Of two queries: lse in units of log2, +inf where the row has no gradient, so that P is 0; and minus delta.
struct alignas(16) LseDeltaPair {
  float2 lse;
  float2 minus_delta;  // times ds_factor
};

__device__ __forceinline__ float lse_of(const LseDeltaPair* lse_delta, int query) {
  return reinterpret_cast<const float*>(lse_delta)[query / 2 * 4 + query % 2];
}

// What consumers need to know of a block of queries, beside its bounds.
enum BlockFlags : int {
  block_live = 1,           // 0: there are no more blocks
  block_clean = 2,          // all of its rows in the tensor are queries with a gradient
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

// Where dk and dv are added to what TMA loads: a barrier for each warp, which says that it has come.
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

template <class Shape>
struct alignas(1024) FusedStorage {
  unsigned char k[Shape::consumers][Shape::key_bytes], v[Shape::consumers][Shape::key_bytes];
  unsigned char q[Shape::stages][Shape::query_bytes], dout[Shape::stages][Shape::query_bytes];
  // Tiles of dS, of 16 bits with the 128-byte swizzle. From here on fp32 dk is staged in the epilogue, or dk
  // and dv.
  unsigned char ds[Shape::ds_tiles][Shape::ds_groups][Shape::ds_group_bytes];
  // Accumulators of each part of dq, 64 columns, for TMA: [column / 32][row][32 columns] of fp32, swizzled.
  unsigned char dq_staging[Shape::dq_parts + Shape::DqSum::more_dq_tiles][Shape::dq_bytes];
  unsigned char staged_dkv_rest[std::max(
      16, Shape::staged_dkv_bytes - Shape::ds_bytes - Shape::dq_parts * Shape::dq_bytes)];
  LoadedLseDelta<Shape::queries> loaded[Shape::loaded_stages];
  LseDeltaPair lse_delta[Shape::info_stages][Shape::queries / 2];
  // Which rows of a block are queries with a gradient, as bits.
  std::uint32_t with_gradient[Shape::info_stages][Shape::queries / 32];
  // Blocks: `found` for the producers, `bounds` for the consumers; in `bounds` the field `segment` is the
  // number of its KeyTile in `tile`.
  Block found[Shape::info_stages], bounds[Shape::info_stages];
  int flags[Shape::info_stages];
  int tile_of[Shape::info_stages];  // the number of a block's KeyTile
  int dq_staged[Shape::dq_parts];   // which BlockInfo the staged accumulators belong to
  KeyTile tile[Shape::tiles];
  // Whether a key has a live pair; written and read by the warp that owns the key.
  unsigned char live[Shape::keys];
  std::uint64_t kv_full, kv_empty;
  std::uint64_t q_free;  // TMA has read what was staged in q; unused where stores_rounded_rows
  std::uint64_t full[Shape::stages], empty[Shape::stages];
  std::uint64_t found_full[Shape::info_stages], info_full[Shape::info_stages];
  std::uint64_t loaded_full[Shape::loaded_stages];
  std::uint64_t ds_full[Shape::ds_tiles], ds_empty[Shape::ds_tiles];
  std::uint64_t dq_full[Shape::dq_parts], dq_empty[Shape::dq_parts];
  [[no_unique_address]] std::conditional_t<Shape::adds_tiles, AddedDkvStorage<4 * Shape::consumers>,
                                           StoredDkvStorage>
      dkv;
  [[no_unique_address]] typename Shape::DqSum::template Storage<Shape> dq_sum;
};

constexpr int most_shared_bytes = 227 << 10;  // of a thread block on Hopper

template <class Shape>
__device__ __forceinline__ void init_barriers(FusedStorage<Shape>& memory) {
  static_assert(sizeof(FusedStorage<Shape>) <= most_shared_bytes);
  constexpr int warps = 4 * Shape::consumers;
  init_barrier(shared_address(&memory.kv_full), 1);
  // All lanes arrive that read K themselves: to racecheck one lane's arrival does not order what others read.
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
