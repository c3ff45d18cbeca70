// From views and segments to the tables that kernels read: row maps and work lists. Plain host code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda {

// Row i of a view lies at physical row begin + i * step, or at rows[i] if there is a table.
struct RowMap {
  std::int64_t begin = 0;
  std::int64_t step = 1;
  std::vector<std::int32_t> rows;  // empty where begin and step say it all
};

// Throws std::invalid_argument if the view has 2^30 rows or more, or if its runs leave physical rows
// 0 .. 2^31 - 1. The runs must add up (check_view).
RowMap row_map(const View& view);

// The view as kernels read it, but for the table of its rows, if it needs one: that has no address yet.
DeviceView device_view(const View& view, const RowMap& map);

// The segments that hold a live pair, in compact rows, in the order of the list.
std::vector<DeviceSegment> live_segments(std::span<const Segment> segments);

struct RowRange {
  std::int64_t begin, end;
};

// The query rows of a segment that see a key; and the same pairs with the roles of rows and keys exchanged.
RowRange live_rows(const DeviceSegment& segment);
DeviceSegment transposed(const DeviceSegment& segment);

struct WorkTables {
  std::vector<WorkTile> tiles;  // most live pairs first, or most time (tile_cuts.hpp)
  std::vector<DeviceSegment> segments;
  bool even = true;  // rows of all tiles have about equally many live pairs: no tile takes much longer
};

// How many of the tiles have segments; these come first.
std::int32_t live_tiles(const WorkTables& work);

// Where tiles begin, and at the end the number of rows: it grows from 0.
using Cuts = std::vector<std::int32_t>;

// Rows of q (of k) cut there (tile_cuts.hpp); each tile with the segments that have a live pair in it.
// Tiles without any are kept where their rows must be stored, else left out. All rows are below 2^30.
WorkTables query_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty);
WorkTables key_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty);

}  // namespace cplab::kernels::cuda
