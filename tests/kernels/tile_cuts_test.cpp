// Where rows are cut into tiles and how long those take, against numbers derived by hand.
#include "kernels/tiles/tile_cuts.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <random>
#include <vector>

#include "kernels/tiles/measured_constants.hpp"
#include "tests/kernels/packed_tiles.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;
using kernels::Segment;

constexpr TileCosts hopper_64_costs = {{0.855, 1.138, 1.505}, 1.32, 0.41};

// A tile's length beyond its blocks, and that of a block with dead pairs beyond one without.
constexpr double beyond_cost = equal_costs.beyond_keys, masked_cost = equal_costs.masked_block;

TileWalk walk_over(std::int64_t heads, std::int64_t sms, bool fixed_share = false) {
  return {.heads = heads, .heads_per_group = heads, .sms = sms, .fixed_share = fixed_share};
}

}  // namespace

TEST_CASE("rows are cut where sequences end, and every so many from there") {
  const Cuts borders = segment_borders(packed({300, 500, 130}), 930, 128);
  CHECK(borders == Cuts{0, 300, 800, 930});
  CHECK(row_cuts(borders, 128) == Cuts{0, 128, 256, 300, 428, 556, 684, 800, 928, 930});
  CHECK(row_cuts(borders, 512) == borders);
  CHECK(even_cuts(300, 128) == Cuts{0, 128, 256, 300});
  CHECK(even_cuts(0, 128) == Cuts{0});
}

TEST_CASE("short sequences share a tile, long ones begin one") {
  CHECK(segment_borders(packed({50, 50, 50, 400}), 550, 128) == Cuts{0, 100, 150, 550});
  // 32 of 4 rows fill a tile of 128; of 3 rows, 42 do but for two rows: 98 tiles where the plain grid has 96.
  CHECK(segment_borders(packed(std::vector<std::int64_t>(4096, 4)), 4 * 4096, 128) ==
        even_cuts(4 * 4096, 128));
  const Cuts threes = segment_borders(packed(std::vector<std::int64_t>(4096, 3)), 3 * 4096, 128);
  CHECK(threes.size() == 98 + 1);
  CHECK(threes[1] == 3 * 42);
}

TEST_CASE("no tile straddles the border of a range, however short, and none is of rows of nobody") {
  // Three sequences of 50 rows, the first two of them neighbours in memory, and 200 rows of another tensor
  // before the third.
  const std::vector<RowRange> ranges = {{0, 50}, {50, 100}, {300, 350}};
  CHECK(range_borders(ranges, 350) == Cuts{0, 50, 100, 300, 350});
  CHECK(range_borders({}, 350) == Cuts{0, 350});
  std::vector<DeviceSegment> live = packed({50, 50, 50});
  for (DeviceSegment& segment : live)
    if (segment.q_begin == 100) segment = {300, 350, 300, 350, segment.low, segment.high};
  CHECK(segment_borders(live, 350, 128, ranges) == Cuts{0, 50, 100, 300, 350});
  CHECK(segment_borders(live, 350, 128) == Cuts{0, 100, 300, 350});
  for (const bool by_key : {false, true}) {
    const TileProblem problem{
        .live = live, .rows = 350, .by_key = by_key, .keep_empty = true, .ranges = ranges};
    const WorkTables work = cheapest_tiles(problem, 128, equal_costs, walk_over(1, 1)).work;
    std::vector<std::int32_t> begins;
    for (const WorkTile& tile : work.tiles) {
      begins.push_back(tile.begin);
      CHECK(tile.end - tile.begin == 50);
      CHECK(tile.count == 1);
    }
    std::sort(begins.begin(), begins.end());
    CHECK(begins == std::vector<std::int32_t>{0, 50, 300});
  }
  // A range without a segment is to be stored all the same; a gap is not.
  live.pop_back();
  CHECK(query_tiles(live, {0, 50, 100, 200, 300, 350}, true, ranges).tiles.size() == 3);
  CHECK(query_tiles(live, {0, 50, 100, 200, 300, 350}, false, ranges).tiles.size() == 2);
  CHECK(query_tiles(live, {0, 50, 100, 200, 300, 350}, true).tiles.size() == 5);
}

TEST_CASE("borders are those of rows with a live pair") {
  // Row i of 100 sees keys to i - 60, of 40.
  const Segment late{.q_begin = 0, .q_count = 100, .k_begin = 0, .k_count = 40, .offset = -60, .right = 0};
  CHECK(segment_borders(live_segments(std::vector<Segment>{late}), 120, 32) == Cuts{0, 60, 100, 120});
  CHECK(segment_borders({}, 120, 32) == Cuts{0, 120});
}

TEST_CASE("small tiles are the first of a piece or its last") {
  const Cuts borders = {0, 300, 350};
  CHECK(row_cuts(borders, 128, {64, 2, false}) == Cuts{0, 128, 172, 236, 300, 350});
  CHECK(row_cuts(borders, 128, {64, 2, true}) == Cuts{0, 64, 128, 256, 300, 350});
}

TEST_CASE("random cuts: tiles are no higher than allowed and no piece is left out") {
  std::mt19937 generator(3);
  for (int trial = 0; trial < 300; ++trial) {
    const std::int64_t rows = draw(generator, 1, 400), height = draw(generator, 1, 200);
    const std::vector<DeviceSegment> live = live_segments(random_segments(generator, rows, 60));
    const Cuts borders = segment_borders(live, rows, height);
    const SmallTiles small{draw(generator, 1, height), draw(generator, 0, 3), draw(generator, 0, 1) == 0};
    const Cuts cuts = row_cuts(borders, height, small);
    REQUIRE(cuts.front() == 0);
    REQUIRE(cuts.back() == rows);
    bool fit = true;
    for (std::size_t n = 1; n < cuts.size(); ++n)
      fit = fit && cuts[n] > cuts[n - 1] && cuts[n] - cuts[n - 1] <= height;
    CHECK(fit);
    CHECK(std::includes(cuts.begin(), cuts.end(), borders.begin(), borders.end()));
  }
}

// Whoever walks only tiles with segments walks the first live_tiles() of them: a low tile with few keys takes
// less time than a high one without any.
TEST_CASE("tiles without segments come last, whatever they cost") {
  std::mt19937 generator(7);
  constexpr TileCosts hopper = {{0.855, 1.138, 1.505}, 1.32, 0.41};
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<Segment> segments;
    std::int64_t rows = 0, keys = 0;
    for (int piece = 0; piece < 6; ++piece) {
      rows += draw(generator, 0, 1) * draw(generator, 1, 600);  // of nobody
      const Segment segment{.q_begin = rows,
                            .q_count = draw(generator, 1, 400),
                            .k_begin = keys,
                            .k_count = draw(generator, 1, 128)};
      segments.push_back(segment);
      rows += segment.q_count;
      keys += segment.k_count;
    }
    const std::vector<DeviceSegment> live = live_segments(segments);
    const TileProblem problem{.live = live, .rows = rows, .keep_empty = true};
    const WorkTables work = cheapest_tiles(problem, 192, hopper, walk_over(draw(generator, 1, 40), 132)).work;
    std::int64_t covered = 0, with_segments = 0;
    for (const WorkTile& tile : work.tiles) {
      covered += tile.end - tile.begin;
      with_segments += tile.count > 0 ? 1 : 0;
    }
    CHECK(covered == rows);
    CHECK(live_tiles(work) == with_segments);
  }
}

// Two sequences of 192 rows that see themselves. At ranges: tiles of 128 keys, of which the second is of both
// and takes as long as two. At segments: 128 and 64 keys of each.
TEST_CASE("pieces: tiles of two sequences, or of one each") {
  const std::vector<DeviceSegment> live = live_segments(std::vector<Segment>{
      {.q_count = 192, .k_count = 192}, {.q_begin = 192, .q_count = 192, .k_begin = 192, .k_count = 192}});
  const auto count = [&](Pieces pieces, std::int64_t sms) {
    const TileProblem problem{.live = live, .rows = 384, .by_key = true, .ranges = {}, .pieces = pieces};
    return cheapest_tiles(problem, 128, equal_costs, walk_over(1, sms)).work.tiles.size();
  };
  // One multiprocessor: three tiles take less than four. Many: the longest counts.
  CHECK(count(Pieces::ranges_then_segments, 1) == 3);
  CHECK(count(Pieces::segments_then_ranges, 1) == 3);
  CHECK(count(Pieces::segments, 1) == 4);
  CHECK(count(Pieces::ranges_then_segments, 100) == 4);
  CHECK(count(Pieces::segments_then_ranges, 100) == 4);
  CHECK(count(Pieces::segments, 100) == 4);
}

TEST_CASE("how even tiles are, and how long they take together") {
  Segment segment{.q_begin = 0, .q_count = 1000, .k_begin = 0, .k_count = 1024};
  const auto tiles = [&](std::int64_t height) {
    return query_tiles(live_segments(std::vector<Segment>{segment}), even_cuts(1000, height), true);
  };
  const auto time = [&](std::int64_t height, std::int64_t heads, std::int64_t sms) {
    return makespan(tile_times(tiles(height), equal_costs), walk_over(heads, sms));
  };
  CHECK(tiles(128).even);  // a short last tile is as long as the others
  const auto about = [](double value) { return doctest::Approx(value).epsilon(1e-4); };  // ticks
  CHECK(time(128, 16, 132) == about(8 + beyond_cost));  // one wave of 128 tiles
  CHECK(time(128, 17, 132) == about(2 * (8 + beyond_cost)));
  CHECK(time(64, 16, 132) == about(2 * (8 + beyond_cost)));
  segment.right = 0;
  CHECK(!tiles(128).even);
  CHECK(time(128, 16, 132) ==
        about(8 + beyond_cost + masked_cost));  // the longest one, masked on the diagonal
  CHECK(time(128, 16, 16) == about(36 + 8 * (beyond_cost + masked_cost)));
  CHECK(time(128, 160, 16) == about(10 * (36 + 8 * (beyond_cost + masked_cost))));  // by the mean
  CHECK(time(128, 0, 16) == 0);
  // 1000 rows are 5 tiles of 192 and one of 40, each for 1024 keys.
  segment.right = -1;
  const std::vector<double> times = tile_times(tiles(192), hopper_64_costs);
  CHECK(times.size() == 6);
  CHECK(times.front() == doctest::Approx((8 + beyond_cost) * 1.505));
  CHECK(times.back() == doctest::Approx((8 + beyond_cost) * 0.855));
}

// Two sequences of 128 rows, a tile of the last 64 of one and the first 64 of the other: it meets a block of
// keys of each, whole, and each of its warpgroups one. In turn it takes as long as both blocks, else half of
// what warpgroups pass is saved. The longest tile is listed first.
TEST_CASE("a tile of several sequences whose warpgroups take turns counts all their blocks") {
  WorkTables work = query_tiles(packed({128, 128}, false), {0, 64, 192, 256}, true);
  REQUIRE(work.tiles.size() == 3);
  CHECK(tile_times(work, equal_costs) ==
        std::vector<double>{beyond_cost + 1.5, beyond_cost + 1, beyond_cost + 1});
  work.in_turn = true;
  CHECK(tile_times(work, equal_costs) ==
        std::vector<double>{beyond_cost + 2, beyond_cost + 1, beyond_cost + 1});
}

TEST_CASE("tiles of groups of heads, as they come or a fixed share of them") {
  const std::vector<double> times = {4, 1};
  TileWalk two{.heads = 2, .heads_per_group = 1, .sms = 2};  // 4, 1, 4, 1
  CHECK(makespan(times, two) == 4 + 1);
  two.fixed_share = true;
  CHECK(makespan(times, two) == 4 + 4);
  two.heads_per_group = 2;  // 4, 4, 1, 1
  CHECK(makespan(times, two) == 4 + 1);
  CHECK(makespan(times, {.heads = 3, .heads_per_group = 2, .sms = 2, .fixed_share = true}) == 4 + 1 + 4);
}

TEST_CASE("the last wave is one of small tiles") {
  // 2048 rows, 32 heads, 132 multiprocessors; a tile's length is 16 + beyond. In tiles of 192, ten and one of
  // 128 for each head, there are three waves: two of 132 and one of 56. With four of 128 there are 8 x 32 =
  // 256 of 192, two waves, and 128 of 128, the third.
  constexpr double length = 16 + beyond_cost;
  const std::vector<DeviceSegment> live = packed({2048}, false);
  const TileProblem problem{.live = live, .rows = 2048, .keep_empty = true};
  for (const bool fixed_share : {false, true}) {
    const auto time = [&](const Cuts& cuts) {
      return makespan(tile_times(query_tiles(live, cuts, true), hopper_64_costs),
                      walk_over(32, 132, fixed_share));
    };
    CHECK(time(even_cuts(2048, 192)) == doctest::Approx(length * 3 * 1.505));
    CHECK(time(row_cuts({0, 2048}, 192, {128, 4, false})) == doctest::Approx(length * (2 * 1.505 + 1.138)));
    const TilePlan plan = cheapest_tiles(problem, 192, hopper_64_costs, walk_over(32, 132, fixed_share));
    CHECK(plan.cost == doctest::Approx(1.015 * length * (2 * 1.505 + 1.138)));
    REQUIRE(plan.work.tiles.size() == 12);
    CHECK(plan.work.tiles[7].end - plan.work.tiles[7].begin == 192);  // the longest first
    CHECK(plan.work.tiles[8].end - plan.work.tiles[8].begin == 128);
  }
  // Where all heights cost the same there is nothing to gain.
  CHECK(cheapest_tiles(problem, 192, equal_costs, walk_over(32, 132)).work.tiles.size() == 11);
  // 64 heads of 16384 rows: 41.7 waves of 192 rows, the last one two thirds full, stay as they are.
  const std::vector<DeviceSegment> longer = packed({16384}, false);
  const TileProblem many{.live = longer, .rows = 16384, .keep_empty = true};
  CHECK(cheapest_tiles(many, 192, hopper_64_costs, walk_over(64, 132, true)).work.tiles.size() == 86);
}

TEST_CASE("the cuts of the shortest tiles, against all ways to cut") {
  std::mt19937 generator(11);
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t rows = draw(generator, 1, 500), height = 64 * draw(generator, 1, 3);
    const std::vector<DeviceSegment> live = live_segments(random_segments(generator, rows, 300));
    const auto cost = [&](int low, int high) {
      return 0.1 * std::uniform_int_distribution<int>(low, high)(generator);
    };
    const TileCosts costs = {{1, cost(11, 19), cost(12, 28)}, 1.32, 0.41};
    const TileProblem problem{.live = live, .rows = rows, .keep_empty = draw(generator, 0, 1) == 0};
    const std::int64_t middle = draw(generator, 0, rows);
    Cuts borders = {0};
    if (middle > 0 && middle < rows) borders.push_back(static_cast<std::int32_t>(middle));
    borders.push_back(static_cast<std::int32_t>(rows));
    const auto time_of = [&](const Cuts& cuts) {
      double time = 0;
      for (const double tile : tile_times(query_tiles(live, cuts, problem.keep_empty), costs)) time += tile;
      return time;
    };
    double least = infinity;
    const std::function<void(Cuts&, std::size_t)> go = [&](Cuts& cuts, std::size_t piece) {
      if (piece == borders.size()) {
        least = std::min(least, time_of(cuts));
        return;
      }
      for (std::int64_t tile = 64; tile <= height; tile += 64) {
        const std::int64_t end = std::min<std::int64_t>(cuts.back() + tile, borders[piece]);
        cuts.push_back(static_cast<std::int32_t>(end));
        go(cuts, end == borders[piece] ? piece + 1 : piece);
        cuts.pop_back();
        if (end == borders[piece]) break;
      }
    };
    Cuts cuts = {0};
    go(cuts, 1);
    const Cuts found = shortest_cuts(problem, borders, height, costs);
    CHECK(found.back() == rows);
    CHECK(time_of(found) == doctest::Approx(least));
  }
}

TEST_CASE("short causal sequences in tiles of 192 rows begin with smaller ones") {
  // Of 1024 rows, with 128, 128 and then four of 192 the blocks of keys are 1, 2 and 4, 5, 7, 8: the last
  // tile ends with the sequence and none is for few rows of its keys. With the small ones at the end they are
  // 2, 3, 5, 6 and 7, 8.
  const std::vector<DeviceSegment> live = packed(std::vector<std::int64_t>(16, 1024));
  const TileProblem problem{.live = live, .rows = 16 * 1024, .keep_empty = true};
  const TilePlan plan = cheapest_tiles(problem, 192, {{0.899, 1.167, 1.418}, 1.32, 0.41}, walk_over(32, 132));
  std::vector<std::int32_t> begins;
  for (const WorkTile& tile : plan.work.tiles)
    if (tile.begin < 1024) begins.push_back(tile.begin);
  std::sort(begins.begin(), begins.end());
  CHECK(begins == std::vector<std::int32_t>{0, 128, 256, 448, 640, 832});
}

TEST_CASE("packed sequences: cut where that is cheaper") {
  // One head, one multiprocessor. Of two causal sequences of 192 + 64 rows each, tiles of 128 cut at the end
  // of the first have 1 and 2 blocks, one of them masked: 2 x (3 + 2 beyond + 2 masked). Without 64 rows in
  // front they are plain ones.
  const auto plan = [](const std::vector<DeviceSegment>& live, std::int64_t rows, bool by_key) {
    return cheapest_tiles({.live = live, .rows = rows, .by_key = by_key, .keep_empty = true}, 128,
                          equal_costs, walk_over(1, 1));
  };
  constexpr double two = 2 * (3 + 2 * beyond_cost + 2 * masked_cost);
  CHECK(plan(packed({256, 256}), 512, false).cost == doctest::Approx(two).epsilon(1e-4));
  // In front, the plain tiles are 0 .. 64 and 64 rows of the first sequence, 1 + 1 + beyond + 2 masked,
  // then two halves of one, and so on: five tiles. With cuts at 64, 320 and 576 there are five, too, but none
  // is in two sequences.
  for (const bool by_key : {false, true}) {
    const TilePlan cut = plan(packed({64, 256, 256}), 576, by_key);
    CHECK(cut.cost == doctest::Approx(1.015 * (two + 1 + beyond_cost + masked_cost)).epsilon(1e-4));
    REQUIRE(cut.work.tiles.size() == 5);
    std::vector<std::int32_t> begins;
    for (const WorkTile& tile : cut.work.tiles) begins.push_back(tile.begin);
    std::sort(begins.begin(), begins.end());
    CHECK(begins == std::vector<std::int32_t>{0, 64, 192, 320, 448});
  }
  // Thousands of tiny ones fill plain tiles.
  const TilePlan tiny = plan(packed(std::vector<std::int64_t>(4096, 4)), 4 * 4096, false);
  CHECK(tiny.work.tiles.size() == 128);
}

}  // namespace cplab::testing
