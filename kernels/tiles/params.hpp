// What CUDA kernels take: views, segments and work lists as device code reads them. Host code fills these
// (calls.cpp), kernels receive them by value; all pointers are device pointers.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda {

// A View whose row map, if it has one, is a table: row i lies at physical row map[i].
//
// Rows are compact: rows 0 .. rows - 1 are those of the call. Only `in_space` they are those of a RowSpace
// (row_space.hpp), of which the call has some; a kernel that is not told which may not touch the others. With
// a map such a view is physical rows 0 .. rows - 1.
struct DeviceView {
  void* data = nullptr;
  const std::int32_t* map = nullptr;  // null: the row itself
  std::int64_t row_stride = 0;        // elements
  std::int64_t head_stride = 0;
  std::int32_t rows = 0;
  std::int32_t heads = 0;
  std::int32_t width = 0;
  DType dtype = DType::fp32;
  bool in_space = false;
  bool consecutive = false;  // with a map in space: map[i + 1] = map[i] + 1 in a tile and in a segment
  std::int32_t listed = 0;   // rows of the call
};

// A Segment in compact rows of q and k: query row i sees key row j iff q_begin <= i < q_end,
// k_begin <= j < k_end and i + low <= j <= i + high. Unbounded: low = -unbounded, high = +unbounded; i + low
// and i + high do not overflow.
constexpr std::int32_t unbounded = 1 << 30;
struct DeviceSegment {
  std::int32_t q_begin, q_end;
  std::int32_t k_begin, k_end;
  std::int32_t low, high;
};

// The rows [begin, end) of one thread block (of q, or of k), and the segments that have a live pair in them:
// segments[first, first + count). A tile without segments is there only where its rows are to be stored.
struct WorkTile {
  std::int32_t begin, end;
  std::int32_t first, count;
};

// In the order in which tiles are taken (WorkTables).
struct WorkList {
  const WorkTile* tiles = nullptr;
  const DeviceSegment* segments = nullptr;
  std::int32_t count = 0;
  std::int32_t live = 0;           // the first so many have segments
  std::int32_t rows_together = 0;  // this and the rest: as in WorkTables
  std::int32_t ending = 0;
  bool alike = false;
  bool out_of_turn = false;
};

// Rows [begin, end) of q whose keys go to several thread blocks: tiles [first, first + count) of the work
// list have these rows, each with other keys.
struct SplitRows {
  std::int32_t begin, end;
  std::int32_t first, count;
};

// Calls whose keys are split: partial results in fp32, which are merged once all are there. Of tile n of the
// work list, key head g and part p of its query heads (split_tiles.hpp) they begin at row
// ((n * key heads + g) * parts + p) * rows of a tile.
struct SplitKeys {
  const SplitRows* rows = nullptr;
  std::int32_t count = 0;  // of `rows`; 0: no key is split, and tiles store results
  float* out = nullptr;    // rows of the width of v
  float* lse = nullptr;    // log2 of the sum, scale included; -inf: `out` was not written
};

struct AttendParams {
  DeviceView q, k, v, out, lse;
  WorkList work;  // tiles of query rows
  double scale = 1;
  Write write = Write::store;
  // One number of the dtype of sums for each head, to be raised to the largest scale * q.k; null: not asked
  // for.
  void* max_logit = nullptr;
  std::int64_t max_logit_stride = 0;  // elements from head to head
  // One number of the dtype of sums for each head (Attend::sink); null: none.
  const void* sink = nullptr;
  std::int64_t sink_stride = 0;
  // For persistent kernels: how many thread blocks, and how they fetch tiles. The counter is 0 between
  // launches; without one, thread block b takes tiles b, b + blocks, ... It is there where tiles differ much
  // in length.
  std::int32_t multiprocessors = 0;  // to be used
  std::int32_t* tile_counter = nullptr;
  SplitKeys split = {};
};

// Of a unit's turns (turns.hpp): from this cell on, up to that of the unit's next run, a cell gets `before`
// pieces before the unit's first one, and `own` of the unit.
struct TurnRun {
  std::int32_t cell;
  std::int32_t before;
  std::int32_t own;
};

// The unit's first run, and what is added to its rows to find their cells.
struct TurnUnit {
  std::int32_t first_run;
  std::int32_t shift;
};

// The order of additions to dq, and to dk and dv where several thread blocks have query heads of a key head.
struct TurnList {
  const std::int32_t* unit_of_tile = nullptr;
  const TurnUnit* units = nullptr;  // and one more
  const TurnRun* runs = nullptr;
  const std::int32_t* total = nullptr;                // pieces of each cell of a head
  const std::int32_t* total_before_ending = nullptr;  // those of tiles before by_k.ending
  bool even = true, full = false;                     // WorkTables::even, all_full()
  bool whole = false;  // whole_pieces(): the first piece of a cell may be stored
  // Pieces added so far, by head and cell; 0 between launches.
  std::int32_t* counters = nullptr;
  std::int32_t cells = 0;  // of a head
  // Query heads that have added so far, by key head, tile and warp; 0 between launches.
  std::int32_t* dkv_counters = nullptr;
};

// Tiles of keys first_tile .. stop_tile - 1 of a list, which add to the rows of dq from row_begin on and to
// no others, where no other tiles add (chains.hpp). These rows are `cells` blocks of queries, of which the
// n-th gets pieces[first_cell + n] pieces: one of every block that a tile walks over, all of them whole.
struct TileChain {
  std::int32_t first_tile, stop_tile;
  std::int32_t row_begin;
  std::int32_t first_cell, cells;
};

struct ChainList {
  const TileChain* chains = nullptr;  // longest first
  const std::int32_t* pieces = nullptr;
  std::int32_t count = 0;
};

struct AttendBackwardParams {
  DeviceView q, k, v, dout, lse, delta, dq, dk, dv;
  WorkList by_q, by_k;  // tiles of query rows (for dq) and of key rows (for dk, dv)
  double scale = 1;
  Write write_dq = Write::store;
  Write write_dk = Write::store;
  // The rows of the call in compact order, for whoever sets all of them to 0.
  DeviceView zeroed_dk = {}, zeroed_dv = {};
  // For persistent kernels, as above, always by the counter: the tiles of by_k, or of both lists.
  std::int32_t multiprocessors = 0;
  std::int32_t* tile_counter = nullptr;
  TurnList turns;         // of the tiles of by_k, for kernels that add to dq in order
  ChainList chains = {};  // of by_k, for kernels whose thread blocks take whole ones
  // Where the kernel writes dq rounded; dq itself is scratch then. None: another launch rounds, or nobody.
  DeviceView rounded_dq = {};
  // Where they are to be stored, they hold zeros when the launch begins: kernels that add need that.
  bool dq_is_zero = false, dkv_is_zero = false;
  // The launch before this one prepares this call and nothing else, and has waited for all that came before
  // it: only what reads delta or adds to zeros has to wait for its end.
  bool follows_preparation = false;
};

}  // namespace cplab::kernels::cuda
