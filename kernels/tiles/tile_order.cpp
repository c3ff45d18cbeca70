// The order of a work list; see tile_order.hpp.
#include "kernels/tiles/tile_order.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

// The tiles of a group, by their numbers in the list.
struct TileGroup {
  std::vector<std::size_t> tiles;
  double longest = 0, together = 0;
};

// Which of its segments a tile walks over most rows of.
std::int32_t longest_segment(const WorkTables& work, const WorkTile& tile, bool by_key) {
  std::int64_t most = -1;
  std::int32_t longest = tile.first;
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const DeviceSegment& segment = work.segments[static_cast<std::size_t>(at)];
    const RowRange rows = queries_of(tile, by_key ? segment : transposed(segment));
    if (rows.end - rows.begin <= most) continue;
    most = rows.end - rows.begin;
    longest = at;
  }
  return longest;
}

std::vector<TileGroup> tile_groups(const WorkTables& work, std::span<const double> times, bool by_key) {
  const WalkedGroups walked = walked_groups(work.segments, by_key);
  std::vector<TileGroup> groups(static_cast<std::size_t>(walked.count));
  for (std::size_t n = 0; n < work.tiles.size(); ++n) {
    if (work.tiles[n].count == 0) continue;
    const std::int32_t segment = longest_segment(work, work.tiles[n], by_key);
    TileGroup& group = groups[static_cast<std::size_t>(walked.of_segment[static_cast<std::size_t>(segment)])];
    group.tiles.push_back(n);
    group.longest = std::max(group.longest, times[n]);
    group.together += times[n];
  }
  std::erase_if(groups, [](const TileGroup& group) { return group.tiles.empty(); });
  return groups;
}

// The last groups become one.
void join_last(std::vector<TileGroup>& groups, const TileWalk& walk) {
  TileGroup last;
  const auto enough = [&] {
    return last.together * static_cast<double>(std::min(walk.heads_per_group, walk.heads)) >
           last.longest * static_cast<double>(walk.sms);
  };
  while (!groups.empty() && !enough()) {
    const TileGroup& next = groups.back();
    last.tiles.insert(last.tiles.begin(), next.tiles.begin(), next.tiles.end());
    last.longest = std::max(last.longest, next.longest);
    last.together += next.together;
    groups.pop_back();
  }
  groups.push_back(std::move(last));
}

}  // namespace

WalkedGroups walked_groups(std::span<const DeviceSegment> segments, bool by_key) {
  struct Rows {
    std::int64_t begin, end;
    std::size_t segment;
  };
  std::vector<Rows> all;
  for (std::size_t n = 0; n < segments.size(); ++n) {
    const RowRange live = live_rows(by_key ? segments[n] : transposed(segments[n]));
    all.push_back({live.begin, live.end, n});
  }
  std::sort(all.begin(), all.end(), [](const Rows& a, const Rows& b) { return a.begin < b.begin; });
  WalkedGroups groups;
  groups.of_segment.resize(segments.size());
  std::int64_t begin = 0, end = 0;  // of the group so far
  for (const Rows& rows : all) {
    if (groups.count == 0 || rows.begin >= end) {
      begin = end = rows.begin;
      ++groups.count;
    }
    end = std::max(end, rows.end);
    groups.most_rows = std::max(groups.most_rows, static_cast<std::int32_t>(end - begin));
    groups.of_segment[rows.segment] = groups.count - 1;
  }
  return groups;
}

bool are_alike(const WorkTables& work, std::span<const double> times) {
  double shortest = std::numeric_limits<double>::infinity(), longest = 0;
  for (std::size_t n = 0; n < work.tiles.size(); ++n) {
    if (work.tiles[n].count == 0) continue;
    shortest = std::min(shortest, times[n]);
    longest = std::max(longest, times[n]);
  }
  return longest <= 1.1 * shortest;
}

bool order_by_walked_rows(WorkTables& work, std::span<const double> times, const TileWalk& walk,
                          bool by_key) {
  std::vector<TileGroup> groups = tile_groups(work, times, by_key);
  if (groups.size() < 2) return false;
  std::stable_sort(groups.begin(), groups.end(),
                   [](const TileGroup& a, const TileGroup& b) { return a.longest > b.longest; });
  double shortest = times[groups.front().tiles.front()];
  for (const TileGroup& group : groups)
    for (const std::size_t tile : group.tiles) shortest = std::min(shortest, times[tile]);
  if (groups.front().longest <= measured("even_tiles_ratio") * shortest) return false;
  work.even = false;
  join_last(groups, walk);
  std::vector<WorkTile> ordered;
  ordered.reserve(work.tiles.size());
  for (TileGroup& group : groups) {
    if (&group == &groups.back()) work.ending = static_cast<std::int32_t>(ordered.size());
    std::stable_sort(group.tiles.begin(), group.tiles.end(),
                     [&](std::size_t a, std::size_t b) { return times[a] > times[b]; });
    for (const std::size_t tile : group.tiles) ordered.push_back(work.tiles[tile]);
  }
  std::copy_if(work.tiles.begin(), work.tiles.end(), std::back_inserter(ordered),
               [](const WorkTile& tile) { return tile.count == 0; });
  work.tiles = std::move(ordered);
  return true;
}

}  // namespace cplab::kernels::cuda
