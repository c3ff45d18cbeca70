// Tiles of few queries and pieces of their keys; see split_tiles.hpp.
#include "kernels/tiles/split_tiles.hpp"

#include <cstddef>

#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {
namespace {

// The keys of a segment that some row of the tile sees, as enter_segments() of parts/segment_blocks.cuh.
RowRange keys_of(const WorkTile& tile, const DeviceSegment& s) {
  const std::int64_t first = std::max(tile.begin, s.q_begin), end = std::min(tile.end, s.q_end);
  if (first >= end) return {0, 0};
  const std::int64_t begin = std::max<std::int64_t>(s.k_begin, first + s.low);
  return {begin, std::max(begin, std::min<std::int64_t>(s.k_end, end + s.high))};
}

std::int64_t blocks_of(const RowRange& keys, std::int64_t block) {
  return (keys.end - keys.begin + block - 1) / block;
}

std::span<const DeviceSegment> segments_of(const WorkTables& work, const WorkTile& tile) {
  return std::span(work.segments)
      .subspan(static_cast<std::size_t>(tile.first), static_cast<std::size_t>(tile.count));
}

std::int64_t blocks_of(const WorkTables& work, const WorkTile& tile, std::int64_t block) {
  std::int64_t all = 0;
  for (const DeviceSegment& s : segments_of(work, tile)) all += blocks_of(keys_of(tile, s), block);
  return all;
}

Cuts cuts_at_segments(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t queries) {
  Cuts borders = range_borders({}, rows);
  for (const DeviceSegment& segment : live) {
    const RowRange seen = live_rows(segment);
    borders.push_back(static_cast<std::int32_t>(seen.begin));
    borders.push_back(static_cast<std::int32_t>(seen.end));
  }
  std::sort(borders.begin(), borders.end());
  borders.erase(std::unique(borders.begin(), borders.end()), borders.end());
  return row_cuts(borders, queries);
}

// Appends a tile of the same rows with blocks first .. stop - 1 of the tile's segments, counted through them.
void add_piece(WorkTables& into, const WorkTables& whole, const WorkTile& tile, std::int64_t first,
               std::int64_t stop, std::int64_t block) {
  WorkTile piece = tile;
  piece.first = static_cast<std::int32_t>(into.segments.size());
  std::int64_t before = 0;  // blocks of the segments before
  for (const DeviceSegment& s : segments_of(whole, tile)) {
    const RowRange keys = keys_of(tile, s);
    const std::int64_t count = blocks_of(keys, block);
    const std::int64_t from = std::max(first - before, std::int64_t{0}), to = std::min(stop - before, count);
    before += count;
    if (from >= to) continue;
    DeviceSegment part = s;
    part.k_begin = static_cast<std::int32_t>(keys.begin + from * block);
    part.k_end = static_cast<std::int32_t>(std::min(keys.begin + to * block, keys.end));
    into.segments.push_back(part);
  }
  piece.count = static_cast<std::int32_t>(into.segments.size()) - piece.first;
  into.tiles.push_back(piece);
}

}  // namespace

WorkTables split_tiles(std::span<const DeviceSegment> live, std::int64_t rows, bool keep_empty,
                       const KeySplit& split) {
  const WorkTables whole = query_tiles(live, cuts_at_segments(live, rows, split.queries), keep_empty);
  std::int64_t all_blocks = 0;
  for (const WorkTile& tile : whole.tiles) all_blocks += blocks_of(whole, tile, split.keys);
  WorkTables pieces;
  pieces.even = whole.even;
  for (const WorkTile& tile : whole.tiles) {
    const std::int64_t blocks = blocks_of(whole, tile, split.keys);
    // Rounded down, so that all pieces begin together.
    const std::int64_t share =
        all_blocks > 0 ? blocks * split.at_once / (all_blocks * std::max<std::int64_t>(split.tile_blocks, 1))
                       : 1;
    const std::int64_t most = std::max<std::int64_t>(blocks / split.least_blocks, 1);
    const std::int64_t count = std::clamp<std::int64_t>(share, 1, most);
    for (std::int64_t n = 0; n < count; ++n)
      add_piece(pieces, whole, tile, blocks * n / count, blocks * (n + 1) / count, split.keys);
  }
  return pieces;
}

std::vector<SplitRows> split_rows(const WorkTables& work) {
  std::vector<SplitRows> all;
  bool several = false;
  for (std::size_t n = 0; n < work.tiles.size(); ++n) {
    const WorkTile& tile = work.tiles[n];
    if (!all.empty() && all.back().begin == tile.begin && all.back().end == tile.end) {
      ++all.back().count;
      several = true;
      continue;
    }
    all.push_back({tile.begin, tile.end, static_cast<std::int32_t>(n), 1});
  }
  if (!several) all.clear();
  return all;
}

}  // namespace cplab::kernels::cuda
