// The tables that GPU kernels read, against brute force over all pairs.
#include "kernels/tiles/work_list.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <stdexcept>
#include <vector>

#include "kernels/tiles/tables.hpp"
#include "kernels/tiles/tile_cuts.hpp"
#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;

constexpr std::int64_t huge = std::numeric_limits<std::int64_t>::max();

bool sees(const DeviceSegment& s, std::int64_t i, std::int64_t j) {
  return i >= s.q_begin && i < s.q_end && j >= s.k_begin && j < s.k_end && j >= i + s.low && j <= i + s.high;
}

std::vector<int> pairs_of(const std::vector<DeviceSegment>& segments, std::int64_t nq, std::int64_t nk) {
  std::vector<int> pairs(static_cast<std::size_t>(nq * nk));
  for (const DeviceSegment& segment : segments)
    for (std::int64_t i = 0; i < nq; ++i)
      for (std::int64_t j = 0; j < nk; ++j)
        pairs[static_cast<std::size_t>(i * nk + j)] += sees(segment, i, j) ? 1 : 0;
  return pairs;
}

// Live pairs of the tile's rows in `segment`; by rows of q, or of k.
std::int64_t live(const DeviceSegment& segment, const WorkTile& tile, std::int64_t others, bool by_key) {
  std::int64_t count = 0;
  for (std::int64_t row = tile.begin; row < tile.end; ++row)
    for (std::int64_t other = 0; other < others; ++other)
      count += (by_key ? sees(segment, other, row) : sees(segment, row, other)) ? 1 : 0;
  return count;
}

// Each row in one tile (or, without empty tiles, at most one); each tile lists exactly the segments that live
// in it, in order; the tiles' live pairs never grow along the list.
void check_tiles(const WorkTables& tables, const std::vector<DeviceSegment>& segments, std::int64_t rows,
                 std::int64_t others, const Cuts& cuts, bool keep_empty, bool by_key) {
  std::vector<int> covered(static_cast<std::size_t>(rows));
  std::int64_t wrong = 0;
  std::int64_t last_pairs = huge;
  std::int64_t last_begin = -1;
  for (const WorkTile& tile : tables.tiles) {
    const auto cut = std::lower_bound(cuts.begin(), cuts.end(), tile.begin);
    REQUIRE(*cut == tile.begin);
    REQUIRE(*(cut + 1) == tile.end);
    for (std::int64_t row = tile.begin; row < tile.end; ++row) ++covered[static_cast<std::size_t>(row)];
    std::int64_t pairs = 0;
    std::int32_t listed = 0;
    for (const DeviceSegment& segment : segments) {
      const std::int64_t count = live(segment, tile, others, by_key);
      pairs += count;
      if (count == 0) continue;
      REQUIRE(listed < tile.count);
      const DeviceSegment& entry = tables.segments[static_cast<std::size_t>(tile.first + listed++)];
      if (entry.q_begin != segment.q_begin || entry.k_begin != segment.k_begin || entry.low != segment.low ||
          entry.q_end != segment.q_end || entry.k_end != segment.k_end || entry.high != segment.high)
        ++wrong;
    }
    if (listed != tile.count) ++wrong;
    if (pairs > last_pairs || (pairs == last_pairs && tile.begin < last_begin)) ++wrong;
    if (pairs == 0 && !keep_empty) ++wrong;
    last_pairs = pairs;
    last_begin = tile.begin;
  }
  CHECK(wrong == 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    const int times = covered[static_cast<std::size_t>(row)];
    const auto cut = std::upper_bound(cuts.begin(), cuts.end(), row);
    const WorkTile tile{.begin = *(cut - 1), .end = *cut, .first = 0, .count = 0};
    const bool busy = std::any_of(segments.begin(), segments.end(), [&](const DeviceSegment& segment) {
      return live(segment, tile, others, by_key) > 0;
    });
    CHECK(times == (keep_empty || busy ? 1 : 0));
  }
}

}  // namespace

TEST_CASE("work lists hold every live pair once, longest tiles first") {
  std::mt19937 generator(1);
  for (int trial = 0; trial < 150; ++trial) {
    const std::int64_t nq = draw(generator, 1, 60), nk = draw(generator, 1, 60);
    const std::vector<Segment> segments = random_segments(generator, nq, nk);
    const Problem problem{.sizes = {.nq = nq, .nk = nk, .H = 1, .G = 1, .D = 1, .E = 1},
                          .segments = segments,
                          .q = {},
                          .k = {},
                          .v = {},
                          .dout = {}};
    const std::vector<DeviceSegment> live_list = live_segments(segments);
    CHECK(pairs_of(live_list, nq, nk) == visible_pairs(problem));
    for (const DeviceSegment& segment : live_list)
      CHECK(live(segment, {0, static_cast<std::int32_t>(nq), 0, 0}, nk, false) > 0);
    const Cuts q_cuts = random_tile_cuts(generator, nq, 20), k_cuts = random_tile_cuts(generator, nk, 20);
    for (const bool keep_empty : {true, false}) {
      check_tiles(query_tiles(live_list, q_cuts, keep_empty), live_list, nq, nk, q_cuts, keep_empty, false);
      check_tiles(key_tiles(live_list, k_cuts, keep_empty), live_list, nk, nq, k_cuts, keep_empty, true);
    }
  }
}

TEST_CASE("offsets and bounds of any size keep their meaning") {
  const auto pairs = [](std::int64_t offset, std::int64_t left, std::int64_t right) {
    const Segment segment{.q_begin = 3,
                          .q_count = 5,
                          .k_begin = 1,
                          .k_count = 6,
                          .offset = offset,
                          .left = left,
                          .right = right};
    const std::vector<int> all = pairs_of(live_segments(std::vector<Segment>{segment}), 10, 10);
    return std::count(all.begin(), all.end(), 1);
  };
  CHECK(pairs(0, huge, huge) == 30);
  CHECK(pairs(huge, -1, huge) == 30);
  CHECK(pairs(huge, huge, 0) == 6 + 5 + 4 + 3 + 2);  // low is i exactly: offset and bound cancel
  CHECK(pairs(huge, 1, -1) == 0);
  CHECK(pairs(-huge, -1, huge) == 1 + 2 + 3 + 4 + 5);
  CHECK(pairs(-huge, 0, 5) == 0);
  CHECK(pairs(std::int64_t{1} << 32, std::int64_t{1} << 32, 0) == 6 + 5 + 4 + 3 + 2);
  CHECK(pairs(-(std::int64_t{1} << 62), -1, -1) == 30);
}

TEST_CASE("tiles of one long sequence share one entry of the segment list") {
  const Segment causal{.q_begin = 0, .q_count = 1000, .k_begin = 0, .k_count = 1000, .right = 0};
  const WorkTables tables =
      query_tiles(live_segments(std::vector<Segment>{causal}), even_cuts(1000, 128), true);
  CHECK(tables.segments.size() == 1);
  REQUIRE(tables.tiles.size() == 8);
  CHECK(tables.tiles.front().begin == 768);  // 128 full rows see more than the last 104
  CHECK(tables.tiles.back().begin == 0);
}

TEST_CASE("thousands of tiny sequences are cut where they lie") {
  std::vector<Segment> segments;
  for (std::int64_t s = 0; s < 4096; ++s)
    segments.push_back({.q_begin = 3 * s, .q_count = 3, .k_begin = 3 * s, .k_count = 3, .right = 0});
  const WorkTables tables = query_tiles(live_segments(segments), even_cuts(3 * 4096, 128), false);
  CHECK(tables.tiles.size() == 96);
  std::int64_t listed = 0;
  for (const WorkTile& tile : tables.tiles) {
    listed += tile.count;
    CHECK(tile.count <= 44);
  }
  CHECK(listed == 4096 + 64);  // of 95 borders of tiles, those at multiples of 384 cut no sequence
}

TEST_CASE("row maps: a table only where a begin and a step do not say it") {
  const auto map_of = [](std::vector<RowRun> runs) {
    View view;
    view.runs = runs;
    for (const RowRun& run : runs) view.rows += run.count;
    const RowMap map = row_map(view);
    std::vector<std::int64_t> rows;
    for (std::int64_t i = 0; i < view.rows; ++i)
      rows.push_back(map.rows.empty() ? map.begin + i * map.step : map.rows[static_cast<std::size_t>(i)]);
    std::vector<std::int64_t> expected;
    for (const RowRun& run : runs)
      for (std::int64_t i = 0; i < run.count; ++i) expected.push_back(run.begin + i * run.step);
    CHECK(rows == expected);
    return map;
  };
  CHECK(map_of({}).rows.empty());
  CHECK(map_of({{5, 4, 2}}).rows.empty());
  CHECK(map_of({{9, 4, -1}}).rows.empty());
  CHECK(map_of({{0, 4, 1}, {7, 0, 1}, {4, 4, 1}}).rows.empty());
  CHECK(map_of({{3, 1, 1}, {8, 1, 1}, {13, 5, 5}}).rows.empty());
  CHECK(map_of({{3, 1, 9}, {0, 1, 9}}).step == -3);
  CHECK(map_of({{0, 4, 1}, {8, 4, 1}}).rows.size() == 8);
  CHECK(map_of({{0, 4, 1}, {4, 4, 2}}).rows.size() == 8);
  CHECK(map_of({{0, 1, 1}, {4, 2, 1}}).rows.size() == 3);
  std::mt19937 generator(2);
  for (int trial = 0; trial < 100; ++trial) map_of(random_layout(draw(generator, 0, 50), generator).runs);

  const RowRun runs[] = {
      {-1, 3, 1}, {std::int64_t{1} << 31, 3, 1}, {0, 3, std::int64_t{1} << 30}, {1, 3, -1}};
  for (const RowRun& run : runs) {
    View view;
    view.rows = 3;
    view.runs = {&run, 1};
    CHECK_THROWS_AS(row_map(view), std::invalid_argument);
  }
  View large;
  large.rows = std::int64_t{1} << 30;
  CHECK_THROWS_AS(row_map(large), std::invalid_argument);
}

TEST_CASE("equal tables are stored once, each on 256 bytes") {
  Tables tables;
  const std::vector<std::int32_t> a = {1, 2, 3}, b = {1, 2, 4}, again = {1, 2, 3};
  CHECK(tables.place<std::int32_t>(a) == 0);
  CHECK(tables.place<std::int32_t>(b) == 256);
  CHECK(tables.place<std::int32_t>(again) == 0);
  CHECK(tables.bytes().size() == 256 + 12);
  CHECK(tables.place_apart<std::int32_t>(a) == 512);  // even of a piece that is there
  CHECK(tables.place<std::int32_t>(a) == 0);
}

}  // namespace cplab::testing
