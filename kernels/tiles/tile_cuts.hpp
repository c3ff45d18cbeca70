// Where rows are cut into tiles, so that a launch is done early. Plain host code.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// Borders that no tile may straddle: where ranges begin and end, 0 and `rows`.
Cuts range_borders(std::span<const RowRange> ranges, std::int64_t rows);

// Borders that no tile straddles: where the rows with live pairs of a segment begin and end. A border is left
// out if one tile can hold all rows from the border before it to the one after it, but not one of `ranges`.
// `live` is of live_segments(), or those transposed for rows of k.
Cuts segment_borders(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t height,
                     std::span<const RowRange> ranges = {});

// Tiles of fewer rows: `count` of them at the beginning or at the end of each piece.
struct SmallTiles {
  std::int64_t rows = 0, count = 0;
  bool first = false;
};

// Each piece between borders cut every `height` rows from its beginning, less its small tiles.
Cuts row_cuts(const Cuts& borders, std::int64_t height, const SmallTiles& small = {});

// All rows as one piece.
Cuts even_cuts(std::int64_t rows, std::int64_t height);

// What tiles take, in any unit of time.
struct TileCosts {
  std::array<double, 3> of_rows;  // a tile of 1 to 64, of 65 to 128, and of 129 or more rows, for 128 keys
  double beyond_keys;             // what every tile takes beside its keys, in blocks of 128 keys
  double masked_block;            // what a block takes more if not all of its pairs are live, likewise

  double of_height(std::int64_t rows) const {
    return of_rows[std::min(static_cast<std::size_t>((rows - 1) / 64), of_rows.size() - 1)];
  }
};

// Of all ways to cut the pieces between borders into tiles of 64, 128, ... rows, at most `height`, the one
// whose tiles take the least time together (tile_times(); dynamic programming over the rows of a piece).
struct TileProblem;
Cuts shortest_cuts(const TileProblem& problem, const Cuts& borders, std::int64_t height,
                   const TileCosts& costs);

// How a launch takes the tiles of a list: heads in groups; in a group the list's first tile of every head,
// then its second, and so on (hopper/parts/tile_scheduler.cuh). A multiprocessor has one tile at a time, and
// then fetches the next one of the launch; with fixed_share multiprocessor i takes tiles i, i + sms, ...
struct TileWalk {
  std::int64_t heads = 1, heads_per_group = 1;
  std::int64_t sms = 1;
  bool fixed_share = false;
};

// How long each tile takes: its blocks of 128 keys, and a part of one more for every block in which not all
// pairs are live, plus a constant (its first product and its epilogue overlap with nothing of its own), times
// its cost. Blocks count half as the tile's, half as the mean of its warpgroups of 64 rows: all wait for a
// block, but a warpgroup none of whose rows sees it computes nothing. All blocks count where queries of
// several sequences are in a tile whose warpgroups take turns. by_key: tiles of keys. `block`: of kernels
// that walk over blocks of fewer rows; a time stays that of 128.
std::vector<double> tile_times(const WorkTables& work, const TileCosts& costs, bool by_key = false,
                               std::int64_t block = 128);

// Every block that a tile meets, counted once for each 64 rows of the tile, which are a warpgroup's: the
// share that those rows do not meet. A masked block counts for as much more as it takes.
double idle_share(const WorkTables& work, double masked_block);
// Whether the warpgroups of a forward launch had better not take turns, where there is a kernel for that.
bool out_of_turn(const WorkTables& work, std::int64_t heads, std::int64_t sms, double masked_block);

// When the last tile is done, if tile n of the list takes times[n].
double makespan(std::span<const double> times, const TileWalk& walk);

// Where the pieces that are cut into tiles begin and end: at range_borders(), at segment_borders(), or which
// of both is faster, the one that comes first unless the other is faster by more than a handicap. A tile that
// straddles sequences walks over the rows of all of them; between segment_borders() only short ones share a
// tile.
enum class Pieces { ranges_then_segments, segments_then_ranges, segments };

struct TileProblem {
  std::span<const DeviceSegment> live;
  std::int64_t rows = 0;  // of q, or of k
  bool by_key = false;
  bool keep_empty = false;
  std::vector<RowRange> ranges = {};  // the rows that belong to the call, ascending; none: all do
  Pieces pieces = Pieces::ranges_then_segments;
  // Of queries: the kernel's warpgroups take turns; the kernel in which they do not exists.
  bool in_turn = false, may_go_out_of_turn = false;
};

struct TilePlan {
  WorkTables work;
  double cost = 0;  // makespan() of its tiles, with the handicap of what is not the first candidate
  bool is_first = true;
};

// The fastest tiles of at most `height` rows. Candidates: all pieces cut every `height`; where tiles of fewer
// rows cost less, shortest_cuts() of the pieces between segment_borders(), and the pieces with some small
// tiles. Any but the first has a handicap of 1.5 %, and lists the tiles that take longest first. fixed_share:
// holds for lists of even tiles only.
TilePlan cheapest_tiles(const TileProblem& problem, std::int64_t height, const TileCosts& costs,
                        const TileWalk& walk);

}  // namespace cplab::kernels::cuda
