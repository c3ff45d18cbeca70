// From views and segments to the tables that kernels read: row maps and work lists.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// Row i of a view lies at physical row begin + i * step, or at rows[i] if there is a table.
struct RowMap {
  std::int64_t begin = 0;
  std::int64_t step = 1;
  std::vector<std::int32_t> rows;  // empty: begin and step are enough
};

// Throws std::invalid_argument if the view has 2^30 rows or more, or if its runs leave physical rows
// 0 .. 2^31 - 1. The runs must add up (check_view).
RowMap row_map(const View& view);

// The view as kernels read it. Its `map` is left null: the table of its rows, if it needs one, has no address
// yet.
DeviceView device_view(const View& view, const RowMap& map);

// What has one number for each head: AttendParams::max_logit and sink of a call.
void set_numbers_of_heads(AttendParams& params, const Attend& call);

// The segments that hold a live pair, in compact rows, in the order of the list.
std::vector<DeviceSegment> live_segments(std::span<const Segment> segments);

struct RowRange {
  std::int64_t begin, end;
};

// The query rows of a segment that see a key; and the same pairs with the roles of rows and keys exchanged.
RowRange live_rows(const DeviceSegment& segment);
DeviceSegment transposed(const DeviceSegment& segment);

// Whether every query of the segment sees every key.
bool is_full(const DeviceSegment& segment);

// How many (query, key) pairs it has.
std::int64_t live_pairs(const DeviceSegment& segment);

// The query rows that a tile of keys walks over in one of its segments, as first_block() of
// parts/segment_blocks.cuh does.
RowRange queries_of(const WorkTile& tile, const DeviceSegment& segment);

struct WorkTables {
  // Most live pairs first, longest first (tile_cuts.hpp), or by the rows they walk over (tile_order.hpp).
  std::vector<WorkTile> tiles;
  std::vector<DeviceSegment> segments;
  bool even = true;  // all tiles have about equally many live pairs a row: none takes much longer
  std::int32_t rows_together = 0;  // the most rows that neighbours in the list walk over; 0: not known
  std::int32_t ending = 0;         // the first tile of the group that ends the launch (tile_order.hpp)
  bool alike = false;              // all tiles with segments take about the same time, where known
  // Forward: warpgroups take turns at the tensor cores; or there is a kernel in which they do not, so that
  // those that are done with a tile begin the next one while the others go on, and it is taken.
  bool in_turn = false, out_of_turn = false;
};

// Whether no segment is masked, so that all tiles of a sequence walk over the same rows.
bool all_full(const WorkTables& work);

// How many of the tiles have segments; these come first.
std::int32_t live_tiles(const WorkTables& work);

// Rows where tiles begin, ascending from 0, and at the end the number of rows.
using Cuts = std::vector<std::int32_t>;

// Tiles of rows of q, or of k, cut at `cuts`; each with the segments that have a live pair in it. Tiles
// without any are kept if keep_empty (their rows must be stored), but not those outside `ranges`: these are
// ascending, and cuts are made where they begin and end; none at all stand for all rows. All rows are below
// 2^30.
WorkTables query_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty,
                       std::span<const RowRange> ranges = {});
WorkTables key_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty,
                     std::span<const RowRange> ranges = {});

}  // namespace cplab::kernels::cuda
