// Row maps, live segments, and the work of tiles; see work_list.hpp.
#include "kernels/tiles/work_list.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>

#include "kernels/call_checks.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {
namespace {

// a + b, or the end of the range that it overflows. What callers add later is below 2^32, and they clamp to
// 2^30, so that the saturated sum and the true one become the same.
std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

std::int32_t clamped(std::int64_t diagonal) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(diagonal, -unbounded, unbounded));
}

// The sum of i over begin .. end.
std::int64_t sum_of(std::int64_t begin, std::int64_t end) {
  return (end - begin) * (begin + end - 1) / 2;
}

// Pairs of rows begin .. end, all of them live: sum of min(k_end, i + high + 1) - max(k_begin, i + low).
std::int64_t pairs_of(const DeviceSegment& s, std::int64_t begin, std::int64_t end) {
  const std::int64_t above = std::int64_t{s.high} + 1;
  const std::int64_t below_cap = std::clamp<std::int64_t>(s.k_end - above, begin, end);
  const std::int64_t ends =
      sum_of(begin, below_cap) + (below_cap - begin) * above + (end - below_cap) * s.k_end;
  const std::int64_t at_floor = std::clamp<std::int64_t>(std::int64_t{s.k_begin} - s.low, begin, end);
  const std::int64_t begins =
      (at_floor - begin) * s.k_begin + sum_of(at_floor, end) + (end - at_floor) * s.low;
  return ends - begins;
}

// Whether a row is in one of the ranges; without ranges all are.
bool belongs(std::span<const RowRange> ranges, std::int64_t row) {
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), row,
                                      [](std::int64_t at, const RowRange& r) { return at < r.end; });
  return ranges.empty() || (after != ranges.end() && after->begin <= row);
}

// Of every tile its live pairs and the numbers of its segments: those of tile n from first[n] on in one list.
struct TileWork {
  std::vector<std::int64_t> pairs;
  std::vector<std::size_t> first;
  std::vector<std::int32_t> segments;
  std::span<const std::int32_t> of(std::size_t tile) const {
    return {segments.data() + first[tile], first[tile + 1] - first[tile]};
  }
};

TileWork work_of(std::span<const DeviceSegment> bands, const Cuts& cuts) {
  // The first cut behind a row. Bands mostly begin where the one before them does, or in the next tile.
  auto behind = cuts.begin();
  const auto cut_behind = [&](std::int64_t row) {
    if (behind != cuts.end() && *behind <= row) ++behind;
    const bool is_first = behind != cuts.begin() && *(behind - 1) <= row;
    if (!is_first || (behind != cuts.end() && *behind <= row))
      behind = std::upper_bound(cuts.begin(), cuts.end(), row);
    return behind;
  };
  const auto for_each_tile = [&](const DeviceSegment& band, auto visit) {  // visit(tile, first row, end)
    const RowRange live = live_rows(band);
    auto next = cut_behind(live.begin);
    for (std::int64_t begin = live.begin; begin < live.end; ++next) {
      const std::int64_t end = std::min<std::int64_t>(live.end, *next);
      visit(static_cast<std::size_t>(next - cuts.begin() - 1), begin, end);
      begin = end;
    }
  };
  TileWork work{std::vector<std::int64_t>(cuts.size() - 1), std::vector<std::size_t>(cuts.size()), {}};
  for (const DeviceSegment& band : bands)
    for_each_tile(band, [&](std::size_t tile, std::int64_t, std::int64_t) { ++work.first[tile + 1]; });
  std::partial_sum(work.first.begin(), work.first.end(), work.first.begin());
  work.segments.resize(work.first.back());
  std::vector<std::size_t> next(work.first.begin(), work.first.end() - 1);
  for (std::size_t s = 0; s < bands.size(); ++s)
    for_each_tile(bands[s], [&](std::size_t tile, std::int64_t begin, std::int64_t end) {
      work.pairs[tile] += pairs_of(bands[s], begin, end);
      work.segments[next[tile]++] = static_cast<std::int32_t>(s);
    });
  return work;
}

// Tiles of the rows that `bands` call query rows; they list `segments`, which have the same numbers (for
// tiles of keys, `bands` are `segments` transposed).
WorkTables cut(std::span<const DeviceSegment> bands, std::span<const DeviceSegment> segments,
               const Cuts& cuts, bool keep_empty, std::span<const RowRange> ranges) {
  const TileWork work = work_of(bands, cuts);
  WorkTables tables;
  std::vector<std::int64_t> pairs;
  double fewest = std::numeric_limits<double>::infinity(), most = 0;  // pairs of a row, by tile
  std::span<const std::int32_t> listed;                               // what the end of tables.segments holds
  for (std::size_t tile = 0; tile < work.pairs.size(); ++tile) {
    const std::span<const std::int32_t> list = work.of(tile);
    if (list.empty() && !(keep_empty && belongs(ranges, cuts[tile]))) continue;
    // Neighbouring tiles mostly have the same list, which is stored once.
    if (!list.empty() && !std::ranges::equal(listed, list)) {
      for (const std::int32_t s : list) tables.segments.push_back(segments[static_cast<std::size_t>(s)]);
      listed = list;
    }
    require(tables.segments.size() < std::size_t{1} << 31, "a list of segments is too long for a GPU");
    tables.tiles.push_back(
        {.begin = cuts[tile],
         .end = cuts[tile + 1],
         .first = list.empty() ? 0 : static_cast<std::int32_t>(tables.segments.size() - list.size()),
         .count = static_cast<std::int32_t>(list.size())});
    pairs.push_back(work.pairs[tile]);
    const double a_row = static_cast<double>(work.pairs[tile]) /
                         static_cast<double>(tables.tiles.back().end - tables.tiles.back().begin);
    fewest = std::min(fewest, a_row);
    most = std::max(most, a_row);
  }
  tables.even = most <= measured("even_tiles_ratio") * fewest;
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return pairs[a] > pairs[b]; });
  std::vector<WorkTile> sorted;
  sorted.reserve(order.size());
  for (const std::size_t tile : order) sorted.push_back(tables.tiles[tile]);
  tables.tiles = std::move(sorted);
  return tables;
}

}  // namespace

// i + low <= k_end - 1 and i + high >= k_begin.
RowRange live_rows(const DeviceSegment& s) {
  if (s.k_begin >= s.k_end || s.low > s.high) return {0, 0};
  return {std::max<std::int64_t>(s.q_begin, std::int64_t{s.k_begin} - s.high),
          std::min<std::int64_t>(s.q_end, std::int64_t{s.k_end} - s.low)};
}

bool all_full(const WorkTables& work) {
  return std::all_of(work.segments.begin(), work.segments.end(), is_full);
}

bool is_full(const DeviceSegment& segment) {
  return segment.q_end - 1 + segment.low <= segment.k_begin &&
         segment.q_begin + segment.high >= segment.k_end - 1;
}

std::int64_t live_pairs(const DeviceSegment& segment) {
  const RowRange rows = live_rows(segment);
  return rows.begin < rows.end ? pairs_of(segment, rows.begin, rows.end) : 0;
}

DeviceSegment transposed(const DeviceSegment& s) {
  return {.q_begin = s.k_begin,
          .q_end = s.k_end,
          .k_begin = s.q_begin,
          .k_end = s.q_end,
          .low = -s.high,
          .high = -s.low};
}

RowMap row_map(const View& view) {
  require(view.rows < unbounded, "a view has 2^30 rows or more, too many for a GPU kernel");
  constexpr std::int64_t physical_limit = std::int64_t{1} << 31;
  RowMap map;
  std::int64_t rows = 0;
  bool one_run = true;
  for (const RowRun& run : view.runs) {
    if (run.count == 0) continue;
    require(run.begin >= 0 && run.begin < physical_limit && run.step > -physical_limit &&
                run.step < physical_limit,
            "a row run leaves physical rows 0 .. 2^31 - 1");
    const std::int64_t last = run.begin + (run.count - 1) * run.step;
    require(last >= 0 && last < physical_limit, "a row run leaves physical rows 0 .. 2^31 - 1");
    if (rows == 0) {
      map.begin = run.begin;
      map.step = run.count > 1 ? run.step : 1;
    } else {
      if (rows == 1) map.step = run.begin - map.begin;  // the step between the first two rows
      one_run =
          one_run && run.begin == map.begin + rows * map.step && (run.count == 1 || run.step == map.step);
    }
    rows += run.count;
  }
  if (one_run) return map;
  map.rows.reserve(static_cast<std::size_t>(rows));
  for (const RowRun& run : view.runs)
    for (std::int64_t row = 0; row < run.count; ++row)
      map.rows.push_back(static_cast<std::int32_t>(run.begin + row * run.step));
  map.begin = 0;
  map.step = 1;
  return map;
}

DeviceView device_view(const View& view, const RowMap& map) {
  // A single run of rows needs no table: it is an address and a stride.
  const std::int64_t shift = map.begin * view.row_stride * static_cast<std::int64_t>(bytes_of(view.dtype));
  return {.data = view.data == nullptr ? nullptr : static_cast<std::byte*>(view.data) + shift,
          .map = nullptr,
          .row_stride = view.row_stride * map.step,
          .head_stride = view.head_stride,
          .rows = static_cast<std::int32_t>(view.rows),
          .heads = static_cast<std::int32_t>(view.heads),
          .width = static_cast<std::int32_t>(view.width),
          .dtype = view.dtype,
          .listed = static_cast<std::int32_t>(view.rows)};
}

void set_numbers_of_heads(AttendParams& params, const Attend& call) {
  const auto view_of = [](const View& view) {
    return device_view(view, row_map(view));
  };  // one row needs no map
  if (call.max_logit) {
    const DeviceView view = view_of(*call.max_logit);
    params.max_logit = view.data;
    params.max_logit_stride = view.head_stride;
  }
  if (!call.sink) return;
  const DeviceView view = view_of(*call.sink);
  params.sink = view.data;
  params.sink_stride = view.head_stride;
}

std::vector<DeviceSegment> live_segments(std::span<const Segment> segments) {
  std::vector<DeviceSegment> live;
  for (const Segment& s : segments) {
    // j - k_begin - (i - q_begin + offset) in [-left, right], solved for j - i.
    const std::int64_t diagonal = s.k_begin - s.q_begin;
    const std::int64_t low =
        s.left < 0 ? -unbounded : clamped(saturating_add(saturating_add(s.offset, -s.left), diagonal));
    const std::int64_t high =
        s.right < 0 ? unbounded : clamped(saturating_add(saturating_add(s.offset, s.right), diagonal));
    const DeviceSegment segment{.q_begin = static_cast<std::int32_t>(s.q_begin),
                                .q_end = static_cast<std::int32_t>(s.q_begin + s.q_count),
                                .k_begin = static_cast<std::int32_t>(s.k_begin),
                                .k_end = static_cast<std::int32_t>(s.k_begin + s.k_count),
                                .low = static_cast<std::int32_t>(low),
                                .high = static_cast<std::int32_t>(high)};
    const RowRange rows = live_rows(segment);
    if (rows.begin < rows.end) live.push_back(segment);
  }
  return live;
}

WorkTables query_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty,
                       std::span<const RowRange> ranges) {
  return cut(live, live, cuts, keep_empty, ranges);
}

std::int32_t live_tiles(const WorkTables& work) {
  const auto empty = std::find_if(work.tiles.begin(), work.tiles.end(),
                                  [](const WorkTile& tile) { return tile.count == 0; });
  return static_cast<std::int32_t>(empty - work.tiles.begin());
}

WorkTables key_tiles(std::span<const DeviceSegment> live, const Cuts& cuts, bool keep_empty,
                     std::span<const RowRange> ranges) {
  std::vector<DeviceSegment> bands;
  bands.reserve(live.size());
  for (const DeviceSegment& segment : live) bands.push_back(transposed(segment));
  return cut(bands, live, cuts, keep_empty, ranges);
}

RowRange queries_of(const WorkTile& tile, const DeviceSegment& s) {
  const std::int64_t k_begin = std::max(tile.begin, s.k_begin), k_end = std::min(tile.end, s.k_end);
  if (k_begin >= k_end) return {0, 0};
  const RowRange rows = {std::max<std::int64_t>(s.q_begin, k_begin - s.high),
                         std::min<std::int64_t>(s.q_end, k_end - s.low)};
  return rows.begin < rows.end ? rows : RowRange{0, 0};
}

}  // namespace cplab::kernels::cuda
