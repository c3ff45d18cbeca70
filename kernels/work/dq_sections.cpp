// Finds sections by the hulls of the query rows of tiles; see dq_sections.hpp.
#include "kernels/work/dq_sections.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "kernels/work/turns.hpp"

namespace cplab::kernels::cuda {

RowRange hull_of(const WorkTile& tile, const std::vector<DeviceSegment>& segments) {
  RowRange hull = {0, 0};
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const RowRange rows = queries_of(tile, segments[static_cast<std::size_t>(at)]);
    if (rows.begin == rows.end) continue;
    if (hull.begin == hull.end) hull = rows;
    hull = {std::min(hull.begin, rows.begin), std::max(hull.end, rows.end)};
  }
  return hull;
}

std::vector<TilesOfRows> joined_hulls(const WorkTables& by_k) {
  std::vector<RowRange> hulls;
  for (std::size_t n = 0; n < static_cast<std::size_t>(live_tiles(by_k)); ++n)
    hulls.push_back(hull_of(by_k.tiles[n], by_k.segments));
  std::vector<std::size_t> order(hulls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return hulls[a].begin < hulls[b].begin; });
  std::vector<TilesOfRows> all;
  for (const std::size_t tile : order) {
    if (all.empty() || hulls[tile].begin >= all.back().rows.end) all.push_back({hulls[tile], {}});
    all.back().rows.end = std::max(all.back().rows.end, hulls[tile].end);
    all.back().tiles.push_back(tile);
  }
  for (TilesOfRows& found : all) std::sort(found.tiles.begin(), found.tiles.end());
  return all;
}

DqSections dq_sections(const WorkTables& by_k, std::int64_t rows, std::int32_t part_rows) {
  std::vector<TilesOfRows> found = joined_hulls(by_k);
  if (found.empty()) return {};
  found.front().rows.begin = 0;
  found.back().rows.end = rows;
  for (std::size_t n = 1; n < found.size(); ++n) found[n - 1].rows.end = found[n].rows.begin;
  const auto first_tile = [](const TilesOfRows& section) {
    return *std::min_element(section.tiles.begin(), section.tiles.end());
  };
  std::sort(found.begin(), found.end(),
            [&](const TilesOfRows& a, const TilesOfRows& b) { return first_tile(a) < first_tile(b); });
  DqSections sections;
  sections.of_tile.resize(static_cast<std::size_t>(live_tiles(by_k)));
  for (const TilesOfRows& each : found) {
    const auto section = static_cast<std::int32_t>(sections.all.size()),
               first = static_cast<std::int32_t>(sections.parts.size());
    for (const std::size_t tile : each.tiles) sections.of_tile[tile] = section;
    for (std::int64_t begin = each.rows.begin; begin < each.rows.end; begin += part_rows)
      sections.parts.push_back({static_cast<std::int32_t>(begin),
                                static_cast<std::int32_t>(std::min(begin + part_rows, each.rows.end)),
                                section});
    sections.all.push_back({first, static_cast<std::int32_t>(sections.parts.size()) - first,
                            static_cast<std::int32_t>(each.tiles.size())});
  }
  return sections;
}

}  // namespace cplab::kernels::cuda
