// Cuts of rows, and how long their tiles take; see tile_cuts.hpp.
#include "kernels/tiles/tile_cuts.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

constexpr double handicap = measured("other_tiles_handicap");
constexpr double few_waves = measured("last_wave_matters_below");

// How much work multiprocessors have, and how many have that much: in whole ticks, so that equal loads
// compare equal.
using Loads = std::map<std::int64_t, std::int64_t>;

// Gives `count` tiles to the multiprocessors with the least work.
void add_tiles(Loads& loads, std::int64_t ticks, std::int64_t count) {
  while (count > 0) {
    const auto least = loads.begin();
    const std::int64_t taken = std::min(count, least->second);
    const std::int64_t load = least->first;
    count -= taken;
    least->second -= taken;
    if (least->second == 0) loads.erase(least);
    loads[load + ticks] += taken;
  }
}

WorkTables tiles_of(const TileProblem& problem, const Cuts& cuts) {
  return problem.by_key ? key_tiles(problem.live, cuts, problem.keep_empty, problem.ranges)
                        : query_tiles(problem.live, cuts, problem.keep_empty, problem.ranges);
}

double sum_of(std::span<const double> times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

// Sorts the tiles by the time they take, the longest first, and those without segments last.
void sort_by_time(WorkTables& work, std::vector<double>& times) {
  std::vector<std::size_t> order(times.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    const bool a_live = work.tiles[a].count > 0, b_live = work.tiles[b].count > 0;
    return a_live != b_live ? a_live : times[a] > times[b];
  });
  std::vector<WorkTile> tiles;
  std::vector<double> sorted;
  for (const std::size_t tile : order) {
    tiles.push_back(work.tiles[tile]);
    sorted.push_back(times[tile]);
  }
  work.tiles = std::move(tiles);
  times = std::move(sorted);
}

// What tiles of whole units of rows take, counted from the beginning of their piece, which the last of a
// piece may end before: a number for each that there can be. One that was never told takes no time.
class KnownTimes {
 public:
  static constexpr std::int64_t unit = 64;

  KnownTimes(const Cuts& borders, std::int64_t height)
      : borders_(borders), lengths_(static_cast<std::size_t>(height / unit)) {
    std::size_t units = 0;
    for (std::size_t piece = 1; piece < borders.size(); ++piece) {
      first_unit_.push_back(units);
      units += static_cast<std::size_t>((borders[piece] - borders[piece - 1] + unit - 1) / unit);
    }
    times_.resize(units * lengths_);
  }

  // Tiles of a piece are mostly asked for one after the other.
  double& of(std::int32_t begin, std::int32_t end) {
    if (begin < borders_[piece_] || begin >= borders_[piece_ + 1])
      piece_ = static_cast<std::size_t>(std::upper_bound(borders_.begin(), borders_.end(), begin) -
                                        borders_.begin() - 1);
    const std::size_t at = first_unit_[piece_] + static_cast<std::size_t>((begin - borders_[piece_]) / unit);
    return times_[at * lengths_ + static_cast<std::size_t>((end - begin + unit - 1) / unit - 1)];
  }

 private:
  const Cuts& borders_;
  std::size_t lengths_;
  std::vector<std::size_t> first_unit_;  // by piece
  std::vector<double> times_;            // by unit in which a tile begins, and its length in units
  std::size_t piece_ = 0;
};

// The search of cheapest_tiles().
class Search {
 public:
  Search(const TileProblem& problem, const TileCosts& costs, const TileWalk& walk)
      : problem_(problem), costs_(costs), walk_(walk) {}

  void plain(const Cuts& cuts) {
    best_.work = cut(cuts);
    const std::vector<double> times = tile_times(best_.work, costs_, problem_.by_key);
    best_.cost = makespan(times, walk_of(best_.work));
    mean_ = mean_of(times);
  }

  // Tries other cuts; returns whether they are faster.
  bool other(const Cuts& cuts) {
    TilePlan plan{.work = cut(cuts), .is_first = false};
    std::vector<double> times = tile_times(plan.work, costs_, problem_.by_key);
    if (handicap * mean_of(times) >= best_.cost) return false;
    sort_by_time(plan.work, times);
    plan.cost = handicap * makespan(times, walk_of(plan.work));
    if (plan.cost >= best_.cost) return false;
    best_ = std::move(plan);
    mean_ = mean_of(times);
    return true;
  }

  // Whether the last wave leaves so much idle that small tiles may pay.
  bool can_gain() const {
    const double tiles = static_cast<double>(best_.work.tiles.size()) * static_cast<double>(walk_.heads);
    return best_.cost > handicap * mean_ && tiles < few_waves * static_cast<double>(walk_.sms);
  }

  TilePlan take() { return std::move(best_); }

 private:
  WorkTables cut(const Cuts& cuts) const {
    WorkTables work = tiles_of(problem_, cuts);
    work.out_of_turn =
        problem_.may_go_out_of_turn && out_of_turn(work, walk_.heads, walk_.sms, costs_.masked_block);
    work.in_turn = problem_.in_turn && !work.out_of_turn;
    return work;
  }
  TileWalk walk_of(const WorkTables& work) const {
    TileWalk walk = walk_;
    walk.fixed_share = walk_.fixed_share && work.even;
    return walk;
  }
  double mean_of(std::span<const double> times) const {
    return sum_of(times) * static_cast<double>(walk_.heads) / static_cast<double>(walk_.sms);
  }

  const TileProblem& problem_;
  const TileCosts& costs_;
  const TileWalk& walk_;
  TilePlan best_;
  double mean_ = 0;
};

}  // namespace

Cuts range_borders(std::span<const RowRange> ranges, std::int64_t rows) {
  Cuts borders = {0};
  const auto add = [&](std::int64_t border) {
    if (border > borders.back()) borders.push_back(static_cast<std::int32_t>(border));
  };
  for (const RowRange& range : ranges) {
    add(range.begin);
    add(range.end);
  }
  add(rows);
  return borders;
}

Cuts segment_borders(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t height,
                     std::span<const RowRange> ranges) {
  const Cuts fixed = range_borders(ranges, rows);
  std::vector<std::int64_t> ends(fixed.begin(), fixed.end());
  for (const DeviceSegment& segment : live) {
    const RowRange range = live_rows(segment);
    ends.push_back(range.begin);
    ends.push_back(range.end);
  }
  std::sort(ends.begin(), ends.end());
  ends.erase(std::unique(ends.begin(), ends.end()), ends.end());
  Cuts borders = {0};
  for (std::size_t n = 0; n < ends.size(); ++n)
    if (ends[n] > borders.back() &&
        (std::binary_search(fixed.begin(), fixed.end(), ends[n]) || ends[n + 1] - borders.back() > height))
      borders.push_back(static_cast<std::int32_t>(ends[n]));
  return borders;
}

Cuts row_cuts(const Cuts& borders, std::int64_t height, const SmallTiles& small) {
  Cuts cuts = {0};
  const auto cut = [&](std::int64_t end, std::int64_t rows) {
    while (cuts.back() < end) cuts.push_back(static_cast<std::int32_t>(std::min(cuts.back() + rows, end)));
  };
  for (std::size_t piece = 1; piece < borders.size(); ++piece) {
    const std::int64_t begin = borders[piece - 1], end = borders[piece];
    const std::int64_t apart = std::min(small.rows * small.count, end - begin);
    if (small.first) cut(begin + apart, small.rows);
    cut(small.first ? end : end - apart, height);
    cut(end, small.rows);
  }
  return cuts;
}

Cuts even_cuts(std::int64_t rows, std::int64_t height) {
  return row_cuts({0, static_cast<std::int32_t>(rows)}, height);
}

Cuts shortest_cuts(const TileProblem& problem, const Cuts& borders, std::int64_t height,
                   const TileCosts& costs) {
  constexpr std::int64_t unit = KnownTimes::unit;
  KnownTimes known(borders, height);
  for (std::int64_t rows = unit; rows <= height; rows += unit)
    for (std::int64_t phase = 0; phase < rows / unit; ++phase) {
      const WorkTables work = tiles_of(problem, row_cuts(borders, rows, {unit, phase, true}));
      const std::vector<double> its = tile_times(work, costs, problem.by_key);
      for (std::size_t n = 0; n < its.size(); ++n) known.of(work.tiles[n].begin, work.tiles[n].end) = its[n];
    }
  Cuts cuts = {0};
  for (std::size_t piece = 1; piece < borders.size(); ++piece) {
    const std::int32_t begin = borders[piece - 1], end = borders[piece];
    struct Rest {
      double time = 0;
      std::int32_t first_end = 0;
    };
    std::vector<Rest> rest(static_cast<std::size_t>((end - begin + unit - 1) / unit + 1));
    for (std::size_t n = rest.size() - 1; n-- > 0;) {
      const auto from = static_cast<std::int32_t>(begin + static_cast<std::int64_t>(n) * unit);
      rest[n].time = std::numeric_limits<double>::infinity();
      for (std::int64_t tile = height / unit; tile > 0; --tile) {
        const std::size_t next = std::min(n + static_cast<std::size_t>(tile), rest.size() - 1);
        const auto to = static_cast<std::int32_t>(std::min<std::int64_t>(from + tile * unit, end));
        const double time = rest[next].time + known.of(from, to);
        if (time < rest[n].time) rest[n] = {time, to};
      }
    }
    while (cuts.back() < end)
      cuts.push_back(rest[static_cast<std::size_t>((cuts.back() - begin) / unit)].first_end);
  }
  return cuts;
}

namespace {

// The blocks of keys that rows [begin, end) meet in a segment, and what the masked ones take beside, in
// blocks of 128.
double length_of(const DeviceSegment& s, std::int64_t begin, std::int64_t end, std::int64_t block,
                 double masked_block) {
  const std::int64_t first = std::max<std::int64_t>(s.q_begin, begin),
                     last = std::min<std::int64_t>(s.q_end, end) - 1;
  if (first > last) return 0;
  const auto keys = [&](std::int64_t low_row, std::int64_t high_row) {  // live for both
    return std::min<std::int64_t>(s.k_end, high_row + s.high + 1) -
           std::max<std::int64_t>(s.k_begin, low_row + s.low);
  };
  const std::int64_t blocks = std::max<std::int64_t>(keys(first, last) + block - 1, 0) / block;
  const std::int64_t whole = std::max<std::int64_t>(keys(last, first), 0) / block;
  const double length = static_cast<double>(blocks) +
                        masked_block * static_cast<double>(std::max<std::int64_t>(blocks - whole, 0));
  return length * static_cast<double>(block) / 128;
}

constexpr std::int64_t warpgroup_rows = 64;

std::int64_t warpgroups_of(const WorkTile& tile) {
  return (tile.end - tile.begin + warpgroup_rows - 1) / warpgroup_rows;
}

// Whether a tile of queries has rows that not all of its segments have: of several sequences. If its
// warpgroups take turns, one that is done with its sequence waits for the others (straddling.json).
bool straddles(const WorkTables& work, const WorkTile& tile) {
  for (std::int32_t at = tile.first; tile.count > 1 && at < tile.first + tile.count; ++at) {
    const DeviceSegment& s = work.segments[static_cast<std::size_t>(at)];
    if (s.q_begin > tile.begin || s.q_end < tile.end) return true;
  }
  return false;
}

// Whether every row that the tile has in the segment sees all of its keys.
bool sees_all(const DeviceSegment& s, const WorkTile& tile) {
  const std::int64_t first = std::max<std::int64_t>(s.q_begin, tile.begin),
                     last = std::min<std::int64_t>(s.q_end, tile.end) - 1;
  return first <= last && first + s.high + 1 >= s.k_end && last + s.low <= s.k_begin;
}

// Blocks that a tile meets, and that its warpgroups meet in the mean.
struct TileLength {
  double of_tile = 0, of_warpgroups = 0;
};
TileLength length_of(const WorkTables& work, const WorkTile& tile, bool by_key, std::int64_t block,
                     double masked_block) {
  TileLength length;
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const DeviceSegment& listed = work.segments[static_cast<std::size_t>(at)];
    const DeviceSegment s = by_key ? transposed(listed) : listed;
    const double of_tile = length_of(s, tile.begin, tile.end, block, masked_block);
    length.of_tile += of_tile;
    if (sees_all(s, tile)) {  // of rows that all see the same keys any part meets as many blocks
      for (std::int64_t row = tile.begin; row < tile.end; row += warpgroup_rows)
        if (s.q_begin < std::min<std::int64_t>(row + warpgroup_rows, tile.end) && row < s.q_end)
          length.of_warpgroups += of_tile;
      continue;
    }
    for (std::int64_t row = tile.begin; row < tile.end; row += warpgroup_rows)
      length.of_warpgroups +=
          length_of(s, row, std::min<std::int64_t>(row + warpgroup_rows, tile.end), block, masked_block);
  }
  length.of_warpgroups /= static_cast<double>(warpgroups_of(tile));
  return length;
}

}  // namespace

std::vector<double> tile_times(const WorkTables& work, const TileCosts& costs, bool by_key,
                               std::int64_t block) {
  std::vector<double> times;
  times.reserve(work.tiles.size());
  for (const WorkTile& tile : work.tiles) {
    TileLength length = length_of(work, tile, by_key, block, costs.masked_block);
    if (work.in_turn && straddles(work, tile)) length.of_warpgroups = length.of_tile;
    times.push_back((costs.beyond_keys + (length.of_tile + length.of_warpgroups) / 2) *
                    costs.of_height(tile.end - tile.begin));
  }
  return times;
}

bool out_of_turn(const WorkTables& work, std::int64_t heads, std::int64_t sms, double masked_block) {
  const auto tiles = static_cast<double>(live_tiles(work) * heads);
  return tiles >= measured("out_of_turn_tiles") * static_cast<double>(sms) &&
         idle_share(work, masked_block) >= measured("out_of_turn_idle");
}

double idle_share(const WorkTables& work, double masked_block) {
  double of_tiles = 0, of_warpgroups = 0;
  for (const WorkTile& tile : work.tiles) {
    const TileLength length = length_of(work, tile, false, 128, masked_block);
    const auto warpgroups = static_cast<double>(warpgroups_of(tile));
    of_tiles += length.of_tile * warpgroups;
    of_warpgroups += length.of_warpgroups * warpgroups;
  }
  return of_tiles == 0 ? 0 : 1 - of_warpgroups / of_tiles;
}

double makespan(std::span<const double> times, const TileWalk& walk) {
  const auto tiles = static_cast<std::int64_t>(times.size()) * walk.heads;
  if (tiles == 0) return 0;
  const auto for_each = [&](auto take) {  // each tile of the list, in how many heads
    for (std::int64_t head = 0; head < walk.heads; head += walk.heads_per_group)
      for (const double time : times) take(time, std::min(walk.heads_per_group, walk.heads - head));
  };
  if (walk.fixed_share) {
    std::vector<double> loads(static_cast<std::size_t>(walk.sms));
    std::size_t next = 0;
    for_each([&](double time, std::int64_t heads) {
      for (; heads > 0; --heads, next = next + 1 < loads.size() ? next + 1 : 0) loads[next] += time;
    });
    return *std::max_element(loads.begin(), loads.end());
  }
  const double mean = sum_of(times) * static_cast<double>(walk.heads) / static_cast<double>(walk.sms);
  if (static_cast<double>(tiles) > few_waves * static_cast<double>(walk.sms)) {
    // Two bounds from below: the mean; and, since one of the multiprocessors has n + 1 of the n sms + 1
    // longest tiles, n + 1 times the shortest of those. Taking the longest tiles first comes close to the
    // larger bound.
    std::vector<double> sorted(times.begin(), times.end());
    std::sort(sorted.begin(), sorted.end(), std::greater<>());
    double longest = mean;
    for (std::int64_t n = 0; n * walk.sms < tiles; ++n)
      longest = std::max(
          longest, static_cast<double>(n + 1) * sorted[static_cast<std::size_t>(n * walk.sms / walk.heads)]);
    return longest;
  }
  constexpr double ticks = 1e4;
  Loads loads = {{0, walk.sms}};
  for_each([&](double time, std::int64_t heads) { add_tiles(loads, std::llround(time * ticks), heads); });
  return static_cast<double>(loads.rbegin()->first) / ticks;
}

TilePlan cheapest_tiles(const TileProblem& problem, std::int64_t height, const TileCosts& costs,
                        const TileWalk& walk) {
  std::vector<DeviceSegment> bands(problem.live.begin(), problem.live.end());
  if (problem.by_key)
    for (DeviceSegment& band : bands) band = transposed(band);
  const Cuts at_segments = segment_borders(bands, problem.rows, height, problem.ranges);
  Search search(problem, costs, walk);
  Cuts borders = range_borders(problem.ranges, problem.rows), others = at_segments;
  if (problem.pieces != Pieces::ranges_then_segments) std::swap(borders, others);
  search.plain(row_cuts(borders, height));
  if (others != borders && problem.pieces != Pieces::segments && search.other(row_cuts(others, height)))
    borders = others;
  if (costs.of_height(1) < costs.of_height(height))
    search.other(shortest_cuts(problem, at_segments, height, costs));
  for (const std::int64_t rows : {128, 64}) {
    if (rows >= height || costs.of_height(rows) >= costs.of_height(height)) continue;
    for (const std::int64_t count : {1, 2, 3, 4, 6, 8, 12, 16})
      for (const bool first : {false, true})
        if (search.can_gain()) search.other(row_cuts(borders, height, {rows, count, first}));
  }
  return search.take();
}

}  // namespace cplab::kernels::cuda
