// Where the tiles of a ring begin; see rings.hpp.
#include "kernels/work/rings.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace cplab::kernels::cuda {
namespace {

// The tiles with segments in the order of their rows: tiles of fewer rows are listed last, but are of a
// sequence all the same.
std::vector<WorkTile> tiles_by_rows(const WorkTables& by_k) {
  std::vector<WorkTile> tiles(by_k.tiles.begin(), by_k.tiles.begin() + live_tiles(by_k));
  std::sort(tiles.begin(), tiles.end(),
            [](const WorkTile& a, const WorkTile& b) { return a.begin < b.begin; });
  return tiles;
}

bool have_same_queries(const DeviceSegment& a, const DeviceSegment& b) {
  return a.q_begin == b.q_begin && a.q_end == b.q_end;
}

// How many neighbours walk over all of the same queries, if that is one number for all tiles; else 0.
std::int64_t tiles_of_sequences(std::span<const WorkTile> tiles, std::span<const DeviceSegment> segments) {
  const auto segment = [&](std::size_t tile) {
    return segments[static_cast<std::size_t>(tiles[tile].first)];
  };
  std::size_t found = 0;
  for (std::size_t begin = 0, end = 0; begin < tiles.size(); begin = end) {
    for (end = begin; end < tiles.size(); ++end)
      if (tiles[end].count != 1 || !is_full(segment(end)) || !have_same_queries(segment(begin), segment(end)))
        break;
    if (found == 0) found = end - begin;
    if (end - begin != found || found == 0) return 0;
  }
  return static_cast<std::int64_t>(found);
}

}  // namespace

bool walk_in_rings(WorkTables& by_k, std::int64_t rows_of_cell, std::int64_t most) {
  if (!by_k.even) return false;
  std::vector<WorkTile> tiles = tiles_by_rows(by_k);
  const std::int64_t ring = tiles_of_sequences(tiles, by_k.segments);
  if (ring < 2 || ring > most) return false;
  const auto cells_of = [&](const DeviceSegment& segment) {
    return (segment.q_end - segment.q_begin + rows_of_cell - 1) / rows_of_cell;
  };
  if (std::any_of(by_k.segments.begin(), by_k.segments.end(),
                  [&](const DeviceSegment& segment) { return cells_of(segment) < 2 * ring; }))
    return false;
  std::vector<DeviceSegment> segments;
  for (std::size_t n = 0; n < tiles.size(); ++n) {
    const DeviceSegment whole = by_k.segments[static_cast<std::size_t>(tiles[n].first)];
    const std::int64_t cells = cells_of(whole);
    // Cells up to here are walked first, from the last to the first.
    const std::int64_t place = static_cast<std::int64_t>(n) % ring;
    const std::int64_t first = ((place + 1) * cells + ring - 1) / ring;
    tiles[n].first = static_cast<std::int32_t>(segments.size());
    DeviceSegment later = whole, sooner = whole;
    if (first < cells) {
      later.q_begin = sooner.q_end = static_cast<std::int32_t>(whole.q_begin + first * rows_of_cell);
      segments.push_back(later);
    }
    segments.push_back(sooner);
    tiles[n].count = static_cast<std::int32_t>(segments.size()) - tiles[n].first;
  }
  std::copy(tiles.begin(), tiles.end(), by_k.tiles.begin());
  by_k.segments = std::move(segments);
  by_k.ring = static_cast<std::int32_t>(ring);
  return true;
}

}  // namespace cplab::kernels::cuda
