// Where rows are cut into tiles, so that a launch is done early. Plain host code.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "kernels/work/work_list.hpp"

namespace cplab::kernels::cuda {

// Borders that no tile straddles: where the live rows of segments begin and end, less borders that lie so
// near to the last that one tile holds the rows from there to the next. `live` has rows of q (live_segments),
// or those of k in their place (transposed).
Cuts segment_borders(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t height);

// In each piece, `count` tiles of fewer rows: the first of the piece, or its last.
struct SmallTiles {
  std::int64_t rows = 0, count = 0;
  bool first = false;
};

// The pieces between borders cut every `height` rows, from where each begins (but for small tiles).
Cuts row_cuts(const Cuts& borders, std::int64_t height, const SmallTiles& small = {});

// All rows as one piece.
Cuts even_cuts(std::int64_t rows, std::int64_t height);

// What a tile costs against 128 keys if it has 1 to 64, 65 to 128, 129 or more rows: time in any unit.
using TileCosts = std::array<double, 3>;

// How a launch walks a list: group by group of heads, the list's first tile of all heads of the group first,
// its second next (hopper/tile_order.cuh). On each multiprocessor one tile at a time: the next one of the
// launch as it comes, or, for a fixed share, every sms-th.
struct TileWalk {
  std::int64_t heads = 1, heads_per_group = 1;
  std::int64_t sms = 1;
  bool fixed_share = false;
};

// How long each tile takes. Beyond its keys (its first product and its end overlap with nothing of its own)
// it costs as much as 1.5 blocks of 128, and half a block more each block in which not all pairs are live: a
// fit to 14 shapes on an H200, full and causal, with each tile height forced in turn, of kernels before these
// (`tiles --heights | scripts/fit_tile_costs.py -` fits anew). by_key: tiles of keys.
std::vector<double> tile_times(const WorkTables& work, const TileCosts& costs, bool by_key = false);

// When the last of them is done, if tile n of the list takes times[n].
double makespan(std::span<const double> times, const TileWalk& walk);

struct TileProblem {
  std::span<const DeviceSegment> live;
  std::int64_t rows = 0;  // of q, or of k
  bool by_key = false;
  bool keep_empty = false;
};

struct TilePlan {
  WorkTables work;
  double cost = 0;  // by makespan
};

// The tiles of at most `height` rows that are done first: all rows cut every `height`, or the pieces between
// segment_borders, or, where fewer rows cost less, with some small tiles. What is not the first of these has
// to gain 1.5 %, which its cost includes, and lists the tiles that take longest first. fixed_share: lists of
// even tiles are walked so.
TilePlan cheapest_tiles(const TileProblem& problem, std::int64_t height, const TileCosts& costs,
                        const TileWalk& walk);

}  // namespace cplab::kernels::cuda
