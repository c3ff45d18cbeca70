// Cuts rows into tiles and finds what each has to do; see work_list.hpp.
#include "kernels/cuda/work_list.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <numeric>

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {
namespace {

// a + b, or the end of the range it runs over. What follows adds less than 2^32 and clamps to 2^30, so that
// a saturated sum and the true one end at the same place.
std::int64_t saturating_add(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return b < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

std::int32_t clamped(std::int64_t diagonal) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(diagonal, -unbounded, unbounded));
}

// The same pairs with the roles of rows and columns exchanged.
DeviceSegment transposed(const DeviceSegment& s) {
  return {.q_begin = s.k_begin,
          .q_end = s.k_end,
          .k_begin = s.q_begin,
          .k_end = s.q_end,
          .low = -s.high,
          .high = -s.low};
}

struct Range {
  std::int64_t begin, end;
};

// The query rows of a segment that see a key: i + low <= k_end - 1 and i + high >= k_begin.
Range live_rows(const DeviceSegment& s) {
  if (s.k_begin >= s.k_end || s.low > s.high) return {0, 0};
  return {std::max<std::int64_t>(s.q_begin, std::int64_t{s.k_begin} - s.high),
          std::min<std::int64_t>(s.q_end, std::int64_t{s.k_end} - s.low)};
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

struct TileWork {
  std::int64_t pairs = 0;
  std::vector<std::int32_t> segments;  // numbers in the list
};

// Tiles of query rows by `bands`, listing `segments` of the same numbers.
WorkTables cut(std::span<const DeviceSegment> bands, std::span<const DeviceSegment> segments,
               std::int64_t rows, std::int64_t height, bool keep_empty) {
  std::vector<TileWork> work(static_cast<std::size_t>((rows + height - 1) / height));
  for (std::size_t s = 0; s < bands.size(); ++s) {
    const Range live = live_rows(bands[s]);
    for (std::int64_t begin = live.begin; begin < live.end;) {
      const std::int64_t tile = begin / height;
      const std::int64_t end = std::min(live.end, (tile + 1) * height);
      TileWork& at = work[static_cast<std::size_t>(tile)];
      at.pairs += pairs_of(bands[s], begin, end);
      at.segments.push_back(static_cast<std::int32_t>(s));
      begin = end;
    }
  }
  WorkTables tables;
  std::vector<std::int64_t> pairs;
  double fewest = std::numeric_limits<double>::infinity(), most = 0;  // pairs of a row, by tile
  const std::vector<std::int32_t>* listed = nullptr;                  // what the end of tables.segments holds
  for (std::size_t tile = 0; tile < work.size(); ++tile) {
    const std::vector<std::int32_t>& list = work[tile].segments;
    if (list.empty() && !keep_empty) continue;
    // Neighbours mostly share their list: one long sequence has one list in all.
    if (!list.empty() && (listed == nullptr || *listed != list)) {
      for (const std::int32_t s : list) tables.segments.push_back(segments[static_cast<std::size_t>(s)]);
      listed = &list;
    }
    require(tables.segments.size() < std::size_t{1} << 31, "a list of segments is too long for a GPU");
    const std::int64_t begin = static_cast<std::int64_t>(tile) * height;
    tables.tiles.push_back(
        {.begin = static_cast<std::int32_t>(begin),
         .end = static_cast<std::int32_t>(std::min(rows, begin + height)),
         .first = list.empty() ? 0 : static_cast<std::int32_t>(tables.segments.size() - list.size()),
         .count = static_cast<std::int32_t>(list.size())});
    pairs.push_back(work[tile].pairs);
    const double a_row = static_cast<double>(work[tile].pairs) /
                         static_cast<double>(tables.tiles.back().end - tables.tiles.back().begin);
    fewest = std::min(fewest, a_row);
    most = std::max(most, a_row);
  }
  constexpr double about = 1.25;
  tables.even = most <= about * fewest;
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
      if (rows == 1) map.step = run.begin - map.begin;  // two rows make a step
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
  // A single run is a matter of address and stride.
  const std::int64_t shift = map.begin * view.row_stride * static_cast<std::int64_t>(bytes_of(view.dtype));
  return {.data = view.data == nullptr ? nullptr : static_cast<std::byte*>(view.data) + shift,
          .map = nullptr,
          .row_stride = view.row_stride * map.step,
          .head_stride = view.head_stride,
          .rows = static_cast<std::int32_t>(view.rows),
          .heads = static_cast<std::int32_t>(view.heads),
          .width = static_cast<std::int32_t>(view.width),
          .dtype = view.dtype};
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
    const Range rows = live_rows(segment);
    if (rows.begin < rows.end) live.push_back(segment);
  }
  return live;
}

WorkTables query_tiles(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t height,
                       bool keep_empty) {
  return cut(live, live, rows, height, keep_empty);
}

std::int32_t live_tiles(const WorkTables& work) {
  const auto empty = std::find_if(work.tiles.begin(), work.tiles.end(),
                                  [](const WorkTile& tile) { return tile.count == 0; });
  return static_cast<std::int32_t>(empty - work.tiles.begin());
}

double makespan(const WorkTables& query_tiles, std::int64_t heads, std::int64_t sms) {
  constexpr std::int64_t block = 128;
  constexpr double beyond_keys = 1.5, masked = 0.5;
  std::vector<double> lengths;
  double total = 0;
  for (const WorkTile& tile : query_tiles.tiles) {
    double length = beyond_keys;
    for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
      const DeviceSegment& s = query_tiles.segments[static_cast<std::size_t>(at)];
      const std::int64_t first = std::max(s.q_begin, tile.begin), last = std::min(s.q_end, tile.end) - 1;
      const auto keys = [&](std::int64_t low_row, std::int64_t high_row) {  // live for both
        return std::min<std::int64_t>(s.k_end, high_row + s.high + 1) -
               std::max<std::int64_t>(s.k_begin, low_row + s.low);
      };
      const std::int64_t blocks = std::max<std::int64_t>(keys(first, last) + block - 1, 0) / block;
      const std::int64_t whole = std::max<std::int64_t>(keys(last, first), 0) / block;
      length += static_cast<double>(blocks) +
                masked * static_cast<double>(std::max<std::int64_t>(blocks - whole, 0));
    }
    lengths.push_back(length);
    total += length * static_cast<double>(heads);
  }
  std::sort(lengths.begin(), lengths.end(), std::greater<>());  // by blocks, where the list goes by pairs
  // No schedule is shorter than the mean; nor, as one of the multiprocessors has n + 1 of the n sms + 1
  // longest tiles, than n + 1 of the shortest of those. Longest first comes close to the larger bound.
  double longest = total / static_cast<double>(sms);
  const auto tiles = static_cast<std::int64_t>(lengths.size()) * heads;
  for (std::int64_t n = 0; n * sms < tiles; ++n)
    longest =
        std::max(longest, static_cast<double>(n + 1) * lengths[static_cast<std::size_t>(n * sms / heads)]);
  return longest;
}

WorkTables key_tiles(std::span<const DeviceSegment> live, std::int64_t rows, std::int64_t height,
                     bool keep_empty) {
  std::vector<DeviceSegment> bands;
  bands.reserve(live.size());
  for (const DeviceSegment& segment : live) bands.push_back(transposed(segment));
  return cut(bands, live, rows, height, keep_empty);
}

}  // namespace cplab::kernels::cuda
