// In which order tiles of keys add to dq: counts by hand, and against a walk over the blocks.
#include "kernels/families/hopper_backward/turns.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <random>
#include <vector>

#include "kernels/tiles/tile_cuts.hpp"
#include "tests/kernels/key_tile_list.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

struct Run {
  std::int32_t cell, before, own;
  bool operator==(const Run&) const = default;
};

std::vector<Run> runs_of(const DqTurns& turns, std::size_t unit) {
  std::vector<Run> runs;
  for (std::int32_t n = turns.units[unit].first_run; n < turns.units[unit + 1].first_run; ++n) {
    const TurnRun& run = turns.runs[static_cast<std::size_t>(n)];
    runs.push_back({run.cell, run.before, run.own});
  }
  return runs;
}

}  // namespace

TEST_CASE("turns: a full mask, where all tiles add everywhere") {
  const DqTurns turns = dq_turns(key_tile_list({{.q_count = 256, .k_count = 384}}, 384), 256, 128);
  CHECK(turns.cells == 4);
  CHECK(turns.unit_of_tile == std::vector<std::int32_t>{0, 1, 2});
  CHECK(runs_of(turns, 0) == std::vector<Run>{{0, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{0, 1, 1}});
  CHECK(runs_of(turns, 2) == std::vector<Run>{{0, 2, 1}});
  CHECK(turns.total == std::vector<std::int32_t>{3, 3, 3, 3});
  CHECK(dq_counters(turns, 3) == 3 * 4);
  // Blocks of 128 queries at head size 64.
  const DqTurns wider = dq_turns(key_tile_list({{.q_count = 256, .k_count = 384}}, 384), 256, 64);
  CHECK(wider.cells == 2);
  CHECK(runs_of(wider, 2) == std::vector<Run>{{0, 2, 1}});
  CHECK(dq_counters(wider, 3) == 3 * 2);
}

TEST_CASE("turns: a causal mask, where a tile adds from its own two cells on") {
  const DqTurns turns =
      dq_turns(key_tile_list({{.q_count = 384, .k_count = 384, .right = 0}}, 384), 384, 128);
  CHECK(runs_of(turns, 0) == std::vector<Run>{{0, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{2, 1, 1}});
  CHECK(runs_of(turns, 2) == std::vector<Run>{{4, 2, 1}});
  CHECK(turns.total == std::vector<std::int32_t>{1, 1, 2, 2, 3, 3});
  const DqTurns wider = dq_turns(key_tile_list({{.q_count = 384, .k_count = 384, .right = 0}}, 384), 384, 64);
  CHECK(runs_of(wider, 1) == std::vector<Run>{{1, 1, 1}});
  CHECK(wider.total == std::vector<std::int32_t>{1, 2, 3});
}

std::vector<std::int32_t> shifts_of(const DqTurns& turns) {
  std::vector<std::int32_t> shifts;
  for (std::size_t unit = 0; unit + 1 < turns.units.size(); ++unit) shifts.push_back(turns.units[unit].shift);
  return shifts;
}

TEST_CASE("turns: cells begin where the queries do") {
  // Queries 10 .. 209: pieces begin at 10, 74, 138 and 202.
  const DqTurns turns =
      dq_turns(key_tile_list({{.q_begin = 10, .q_count = 200, .k_count = 256}}, 256), 300, 128);
  CHECK(turns.cells == 4);
  CHECK(shifts_of(turns) == std::vector{-10, -10});
  CHECK(runs_of(turns, 0) == std::vector<Run>{{0, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{0, 1, 1}});
  CHECK(turns.total == std::vector<std::int32_t>{2, 2, 2, 2});
}

TEST_CASE("turns: two sequences that meet within a tile have cells of their own") {
  // Of 100 rows each; keys 0 .. 127 are a tile of both, the other 72 of the second alone. The first tile's
  // second segment comes first.
  const DqTurns turns =
      dq_turns(key_tile_list({{.q_count = 100, .k_count = 100},
                              {.q_begin = 100, .q_count = 100, .k_begin = 100, .k_count = 100}},
                             200),
               200, 128);
  CHECK(turns.unit_of_tile == std::vector<std::int32_t>{0, 2});
  CHECK(shifts_of(turns) == std::vector{28, 0, 28});  // row 100 is the first of cell 2
  CHECK(runs_of(turns, 0) == std::vector<Run>{{2, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{0, 0, 1}});
  CHECK(runs_of(turns, 2) == std::vector<Run>{{2, 1, 1}});
  CHECK(turns.total == std::vector<std::int32_t>{1, 1, 2, 2});
}

TEST_CASE("turns: where units begin at several distances, pieces that straddle cells count in both") {
  // Rows 10 .. 209 see the second tile, which is listed first, and fewer rows, 0 .. 99, the first one. So
  // cells begin at rows -54, 10, 74 and so on. Pieces that begin at rows 0 and 64 are in cells 0 1 and 1 2.
  const DqTurns turns = dq_turns(
      key_tile_list(
          {{.q_count = 100, .k_count = 128}, {.q_begin = 10, .q_count = 200, .k_begin = 128, .k_count = 128}},
          256),
      256, 128);
  CHECK(turns.cells == 5);
  CHECK(shifts_of(turns) == std::vector{54, 54});
  CHECK(runs_of(turns, 0) == std::vector<Run>{{1, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{0, 0, 1}, {1, 1, 2}, {2, 1, 1}});
  CHECK(turns.total == std::vector<std::int32_t>{1, 3, 2, 1, 1});
}

TEST_CASE("turns: a causal mask with more keys than queries") {
  // Row i sees keys up to i + 40: tiles of keys after the first begin at rows 88, 216, 344 and 472, so cells
  // at 24 and so on, and once before. Eight pieces of the first tile straddle them.
  const DqTurns turns =
      dq_turns(key_tile_list({{.q_count = 512, .k_count = 552, .offset = 40, .right = 0}}, 552), 512, 128);
  CHECK(turns.cells == 9);
  CHECK(shifts_of(turns) == std::vector{40, 40, 40, 40, 40});
  CHECK(runs_of(turns, 0) == std::vector<Run>{{0, 0, 1}, {1, 0, 2}, {8, 0, 1}});
  CHECK(runs_of(turns, 1) == std::vector<Run>{{2, 2, 1}, {8, 1, 1}});
  CHECK(runs_of(turns, 2) == std::vector<Run>{{4, 3, 1}, {8, 2, 1}});
  CHECK(runs_of(turns, 4) == std::vector<Run>{{8, 4, 1}});
}

TEST_CASE("turns: tiles without keys that anybody sees have none") {
  const WorkTables work = key_tile_list({{.q_count = 64, .k_count = 64}}, 400);
  REQUIRE(work.tiles.size() == 4);
  const DqTurns turns = dq_turns(work, 64, 128);
  CHECK(turns.unit_of_tile.size() == 1);
  CHECK(dq_turns(key_tile_list({}, 128), 64, 128).runs.empty());
}

TEST_CASE("turns: groups of heads, all but the last in the opposite order, and that one up to its ending") {
  const auto groups = [](int heads, int fitting, bool even, std::int32_t ending = 0) {
    const HeadGroups found = head_groups(heads, fitting, even, ending);
    return std::vector{found.heads, found.opposite_heads, found.opposite_tiles};
  };
  CHECK(groups(16, 2, false) == std::vector{2, 14, 0});
  CHECK(groups(16, 5, false) == std::vector{4, 12, 0});  // four groups, none smaller than the others
  CHECK(groups(16, 16, false) == std::vector{8, 8, 0});  // two at least
  CHECK(groups(7, 3, false) == std::vector{3, 6, 0});    // 3, 3, 1
  CHECK(groups(3, 3, false) == std::vector{1, 2, 0});
  CHECK(groups(1, 4, false) == std::vector{1, 0, 0});
  CHECK(groups(16, 16, true) == std::vector{16, 0, 0});
  CHECK(groups(16, 5, true) == std::vector{4, 0, 0});
  CHECK(groups(16, 16, false, 10) == std::vector{16, 0, 10});  // one is enough
  CHECK(groups(16, 8, false, 10) == std::vector{8, 8, 10});
}

TEST_CASE("turns: no more heads side by side than there are key heads, where these keep the GPU busy") {
  const auto heads = [](int fitting, std::int64_t key_heads, std::int64_t tiles, std::int64_t queue = 0) {
    return heads_that_take_turns(fitting, key_heads, tiles, queue, 132);
  };
  CHECK(heads(16, 8, 128) == 8);  // 16 of them would be two of each key head
  CHECK(heads(4, 8, 128) == 4);   // what the cache holds
  CHECK(heads(8, 1, 64) == 3);    // 64 tiles of one head leave 68 multiprocessors idle
  CHECK(heads(2, 1, 64) == 2);
  CHECK(heads(8, 2, 8) == 8);  // 17 would be busy
  CHECK(heads(0, 1, 0) == 1);  // nothing to do, but a group all the same
  // 64 tiles of one sequence that begin together queue for longer the fewer heads there are.
  CHECK(heads(4, 1, 64, queueing_tiles(true, 8192, 128)) == 4);
  CHECK(heads(4, 1, 64, queueing_tiles(false, 8192, 128)) == 3);   // with masks they do not
  CHECK(heads(32, 8, 128, queueing_tiles(true, 1024, 128)) == 8);  // a short queue
}

TEST_CASE("turns: pieces of tiles before the ending") {
  // Causal, sequences of 192 and 64 rows in cells of 64 rows; tiles of 128, 64 and 64 keys, listed in that
  // order. The first adds to cells 0 to 2, the second to 2, the third to 3.
  WorkTables work =
      key_tiles(live_segments(std::vector<Segment>{
                    {.q_count = 192, .k_count = 192, .right = 0},
                    {.q_begin = 192, .q_count = 64, .k_begin = 192, .k_count = 64, .right = 0}}),
                {0, 128, 192, 256}, true);
  REQUIRE(work.tiles.size() == 3);
  CHECK(dq_turns(work, 256, 128).total_before_ending == std::vector<std::int32_t>(4));
  work.ending = 2;
  const DqTurns turns = dq_turns(work, 256, 128);
  CHECK(turns.total_before_ending == std::vector<std::int32_t>{1, 1, 2, 0});
  CHECK(turns.total == std::vector<std::int32_t>{1, 1, 2, 1});
}

TEST_CASE("turns: whether all pieces are whole cells, and every cell gets one") {
  const auto whole = [](const std::vector<Segment>& segments, std::int64_t rows, std::int64_t keys,
                        std::int64_t width = 128) {
    return whole_pieces(key_tile_list(segments, keys), rows, width);
  };
  CHECK(whole({{.q_count = 256, .k_count = 384}}, 256, 384));
  CHECK(whole({{.q_count = 256, .k_count = 256, .right = 0}}, 256, 256));
  CHECK(whole({{.q_count = 250, .k_count = 256}}, 250, 256));   // the last cell is cut off by the end of dq
  CHECK(!whole({{.q_count = 250, .k_count = 256}}, 256, 256));  // six rows get nothing
  CHECK(!whole({{.q_begin = 64, .q_count = 192, .k_count = 256}}, 256, 256));
  CHECK(whole({{.q_begin = 64, .q_count = 192, .k_count = 256}, {.q_count = 64, .k_count = 10}}, 256, 256));
  // Sequences of 192 rows: whole in cells of 64 rows, not of 128.
  const std::vector<Segment> two = {
      {.q_count = 192, .k_count = 192, .right = 0},
      {.q_begin = 192, .q_count = 192, .k_begin = 192, .k_count = 192, .right = 0}};
  CHECK(whole(two, 384, 384));
  CHECK(!whole(two, 384, 384, 64));
  CHECK(shifts_of(dq_turns(key_tile_list(two, 384), 384, 128)) == std::vector{0, 0, 0, 0});
  // Keys 128 to 255 are seen from row 120 on.
  CHECK(!whole({{.q_count = 256, .k_count = 256, .offset = 8, .right = 0}}, 256, 256));
  CHECK(!whole({}, 64, 128));
  CHECK(whole({}, 0, 128));
}

// The pieces that a kernel adds, as it walks: of one unit after the other in blocks of `columns` queries, 64
// at head size 128 and 128 at 64.
TEST_CASE("turns: random segments against a walk over the blocks") {
  std::mt19937 generator(5);
  const auto up_to = [&](std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(0, most)(generator);
  };
  for (int round = 0; round < 200; ++round) {
    const std::int64_t rows = 1 + up_to(900), keys = 1 + up_to(900);
    const std::int32_t columns = round % 2 == 0 ? 64 : 128;
    std::vector<Segment> segments;
    for (std::int64_t n = up_to(4); n >= 0; --n) {
      Segment s{.q_begin = up_to(rows - 1), .k_begin = up_to(keys - 1)};
      s.q_count = up_to(rows - s.q_begin);
      s.k_count = up_to(keys - s.k_begin);
      s.offset = up_to(200) - 100;
      s.left = up_to(1) == 0 ? -1 : up_to(300);
      s.right = up_to(1) == 0 ? -1 : up_to(300);
      segments.push_back(s);
    }
    const WorkTables work = key_tile_list(segments, keys);
    const DqTurns turns = dq_turns(work, rows, columns == 64 ? 128 : 64);
    std::vector<std::int32_t> count(static_cast<std::size_t>(turns.cells));
    // A row is in the same place of the same cell for all units, and no other row is.
    std::map<std::int32_t, std::int32_t> place_of_row, row_of_place;
    // Of each unit and cell that it adds to: what dq_turns() says, to be compared with counts later on.
    std::size_t unit = 0;
    bool equal = true;
    for (std::int32_t t = 0; t < live_tiles(work); ++t) {
      const WorkTile& tile = work.tiles[static_cast<std::size_t>(t)];
      equal = equal && turns.unit_of_tile[static_cast<std::size_t>(t)] == static_cast<std::int32_t>(unit);
      for (std::int32_t n = tile.first + tile.count - 1; n >= tile.first; --n, ++unit) {
        const DeviceSegment& s = work.segments[static_cast<std::size_t>(n)];
        // The rows with a live pair, one after the other.
        std::int32_t begin = 0, end = 0;
        for (std::int32_t q = s.q_begin; q < s.q_end; ++q)
          for (std::int32_t k = std::max(tile.begin, s.k_begin); k < std::min(tile.end, s.k_end); ++k)
            if (q + s.low <= k && k <= q + s.high) {
              if (begin == end) begin = q;
              end = q + 1;
            }
        const std::int32_t shift = turns.units[unit].shift;
        for (std::int32_t q = begin; q < end; ++q)
          equal = equal && place_of_row.emplace(q, q + shift).first->second == q + shift &&
                  row_of_place.emplace(q + shift, q).first->second == q;
        const std::vector<std::int32_t> before = count;
        for (std::int32_t block = begin; block < end; block += columns) {
          const std::int32_t last = std::min(block + columns, end) - 1;
          for (std::int32_t cell = (block + shift) / columns; cell <= (last + shift) / columns; ++cell)
            ++count[static_cast<std::size_t>(cell)];
        }
        const std::vector<Run> runs = runs_of(turns, unit);
        for (std::size_t cell = 0; cell < count.size(); ++cell) {
          if (count[cell] == before[cell]) continue;
          std::size_t at = runs.size();
          while (at > 0 && runs[at - 1].cell > static_cast<std::int32_t>(cell)) --at;
          if (at == 0) {
            equal = false;
            continue;
          }
          equal =
              equal && runs[at - 1].before == before[cell] && runs[at - 1].own == count[cell] - before[cell];
        }
      }
    }
    CHECK(unit + 1 == turns.units.size());
    CHECK(equal);
    CHECK(turns.total == count);
  }
}

}  // namespace cplab::testing
