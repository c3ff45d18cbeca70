// Tiles of keys that walk in rings: where each begins, and that turns follow from it.
#include "kernels/work/rings.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/work/tile_cuts.hpp"
#include "kernels/work/turns.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/key_tile_list.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;

// Queries of a tile in the order in which it walks over its segments, from the last one to the first: the
// first row of each and the row behind its last.
std::vector<std::pair<int, int>> walk_of(const WorkTables& work, std::size_t tile) {
  std::vector<std::pair<int, int>> walk;
  for (std::int32_t s = work.tiles[tile].first + work.tiles[tile].count; s-- > work.tiles[tile].first;) {
    const DeviceSegment& segment = work.segments[static_cast<std::size_t>(s)];
    walk.emplace_back(segment.q_begin, segment.q_end);
  }
  return walk;
}

// What a tile adds, in the order of its walk: to which cell, and behind how many pieces.
struct Piece {
  std::int32_t cell, before;
};
std::vector<Piece> pieces_of(const WorkTables& work, const DqTurns& turns, std::size_t tile) {
  std::vector<Piece> pieces;
  auto unit = static_cast<std::size_t>(turns.unit_of_tile[tile]);
  for (const auto& [begin, end] : walk_of(work, tile)) {
    const std::int32_t shift = turns.units[unit].shift;
    for (std::int32_t cell = (end + shift + 63) / 64; cell-- > (begin + shift) / 64;) {
      std::int32_t before = -1;
      for (std::int32_t r = turns.units[unit].first_run; r < turns.units[unit + 1].first_run; ++r)
        if (turns.runs[static_cast<std::size_t>(r)].cell <= cell)
          before = turns.runs[static_cast<std::size_t>(r)].before;
      pieces.push_back({cell, before});
    }
    ++unit;
  }
  return pieces;
}

}  // namespace

TEST_CASE("rings: each tile begins where the one before it does, and its share of the queries further on") {
  // Four tiles over 512 queries, cells of 64: two cells each.
  WorkTables work = key_tile_list({{.q_count = 512, .k_count = 512}}, 512);
  REQUIRE(walk_in_rings(work, 64, 4));
  CHECK(work.ring == 4);
  CHECK(walk_of(work, 0) == std::vector<std::pair<int, int>>{{0, 128}, {128, 512}});
  CHECK(walk_of(work, 1) == std::vector<std::pair<int, int>>{{0, 256}, {256, 512}});
  CHECK(walk_of(work, 2) == std::vector<std::pair<int, int>>{{0, 384}, {384, 512}});
  CHECK(walk_of(work, 3) == std::vector<std::pair<int, int>>{{0, 512}});
  // Three tiles over seven cells, the last of which is not whole: 3, 5 and all of them.
  WorkTables odd = key_tile_list({{.q_begin = 10, .q_count = 430, .k_count = 384}}, 384);
  REQUIRE(walk_in_rings(odd, 64, 4));
  CHECK(walk_of(odd, 0) == std::vector<std::pair<int, int>>{{10, 202}, {202, 440}});
  CHECK(walk_of(odd, 1) == std::vector<std::pair<int, int>>{{10, 330}, {330, 440}});
  CHECK(walk_of(odd, 2) == std::vector<std::pair<int, int>>{{10, 440}});
}

TEST_CASE("rings: not of masked tiles, of sequences of other lengths, of one tile, too many or few cells") {
  const auto walks = [](const std::vector<Segment>& segments, std::int64_t keys, std::int64_t most) {
    WorkTables work = key_tile_list(segments, keys);
    const std::size_t before = work.segments.size();
    const bool rings = walk_in_rings(work, 64, most);
    CHECK(rings == (work.ring > 0));
    if (!rings) CHECK(work.segments.size() == before);
    return rings;
  };
  CHECK(walks({{.q_count = 512, .k_count = 512}}, 512, 4));
  CHECK(!walks({{.q_count = 512, .k_count = 512}}, 512, 3));
  CHECK(!walks({{.q_count = 512, .k_count = 512, .right = 0}}, 512, 4));
  CHECK(!walks({{.q_count = 512, .k_count = 512, .left = 400}}, 512, 4));
  CHECK(!walks({{.q_count = 128, .k_count = 128}}, 128, 4));
  CHECK(walks({{.q_count = 449, .k_count = 512}}, 512, 4));
  CHECK(!walks({{.q_count = 448, .k_count = 512}}, 512, 4));
  const Segment first{.q_count = 256, .k_count = 256};
  CHECK(walks({first, {.q_begin = 256, .q_count = 270, .k_begin = 256, .k_count = 200}}, 456, 4));
  CHECK(!walks({first, {.q_begin = 256, .q_count = 400, .k_begin = 256, .k_count = 200}}, 456, 4));
  CHECK(!walks({first, {.q_begin = 256, .q_count = 384, .k_begin = 256, .k_count = 384}}, 640, 4));
  // The second sequence begins within a tile.
  CHECK(!walks(
      {{.q_count = 200, .k_count = 200}, {.q_begin = 200, .q_count = 200, .k_begin = 200, .k_count = 200}},
      400, 4));
  CHECK(!walks({}, 256, 4));
}

// Two sequences of 330 rows, cut where they begin: their last tiles have 74 rows and are listed last.
TEST_CASE("rings: tiles of fewer rows are with those of their sequence") {
  const std::vector<Segment> segments = {{.q_count = 330, .k_count = 330},
                                         {.q_begin = 330, .q_count = 330, .k_begin = 330, .k_count = 330}};
  WorkTables work = key_tiles(live_segments(segments), {0, 128, 256, 330, 458, 586, 660}, true);
  REQUIRE(walk_in_rings(work, 64, 4));
  CHECK(work.ring == 3);
  for (std::size_t n = 1; n < 6; ++n) CHECK(work.tiles[n - 1].end == work.tiles[n].begin);
  CHECK(walk_of(work, 3) == std::vector<std::pair<int, int>>{{330, 458}, {458, 660}});
}

// By hand, four tiles over cells 0 to 7, of which tile t begins at cell 2 t + 1: at a cell the tile that
// begins there comes first, then the next ones, around.
TEST_CASE("rings: at a cell the tile comes first that begins there, and so on around") {
  WorkTables work = key_tile_list({{.q_count = 512, .k_count = 512}}, 512);
  REQUIRE(walk_in_rings(work, 64, 4));
  const DqTurns turns = dq_turns(work, 512, 128);
  CHECK(turns.whole);
  CHECK(turns.total == std::vector<std::int32_t>(8, 4));
  CHECK(turns.unit_of_tile == std::vector<std::int32_t>{0, 2, 4, 6});
  for (std::int32_t tile = 0; tile < 4; ++tile) {
    const std::vector<Piece> pieces = pieces_of(work, turns, static_cast<std::size_t>(tile));
    REQUIRE(pieces.size() == 8);
    for (std::int32_t step = 0; step < 8; ++step) {
      CAPTURE(tile);
      CAPTURE(step);
      const Piece& piece = pieces[static_cast<std::size_t>(step)];
      CHECK(piece.cell == (2 * tile + 1 - step + 8) % 8);
      CHECK(piece.before == step / 2);
    }
  }
}

// A walk over a launch: every tile of a ring has a thread block, which adds a piece when its turn has come,
// and nothing else. In steps in which all that may add do, no tile is ever held up: all are done after as
// many steps as a tile has cells.
TEST_CASE("rings: nobody queues, and nobody waits for ever") {
  for (const std::int64_t queries : {256, 384, 512, 1024, 2048}) {
    for (const std::int64_t keys : {256, 384, 512, 1024, 2048}) {
      if (queries < keys) continue;
      CAPTURE(queries);
      CAPTURE(keys);
      WorkTables work = key_tile_list({{.q_count = queries, .k_count = keys}}, keys);
      REQUIRE(walk_in_rings(work, 64, 16));
      const DqTurns turns = dq_turns(work, queries, 128);
      std::vector<std::vector<Piece>> walks;
      for (std::size_t tile = 0; tile < work.tiles.size(); ++tile)
        walks.push_back(pieces_of(work, turns, tile));
      std::vector<std::int32_t> added(static_cast<std::size_t>(queries / 64));
      std::vector<std::size_t> at(walks.size());
      std::size_t steps = 0;
      for (bool moved = true; moved; ++steps) {
        moved = false;
        const std::vector<std::int32_t> seen = added;
        for (std::size_t tile = 0; tile < walks.size(); ++tile) {
          if (at[tile] == walks[tile].size()) continue;
          const Piece& piece = walks[tile][at[tile]];
          if (seen[static_cast<std::size_t>(piece.cell)] < piece.before) continue;
          CHECK(seen[static_cast<std::size_t>(piece.cell)] == piece.before);
          ++added[static_cast<std::size_t>(piece.cell)];
          ++at[tile];
          moved = true;
        }
      }
      for (std::size_t tile = 0; tile < walks.size(); ++tile) CHECK(at[tile] == walks[tile].size());
      CHECK(added == turns.total);
      CHECK(steps - 1 == static_cast<std::size_t>(queries / 64));
    }
  }
}

// Rounding wants a call that stores dq and has a place for it where whole rows can be stored.
TEST_CASE("rings: not every call in rings rounds dq in the kernel, and then another launch casts it") {
  VariantOptions options = on_hopper;
  options.only = ordered_kernel;
  const Call shape{.S = 1024, .B = 2, .causal = false};
  const std::vector<Segment> segments = shape.segments();
  const AttendBackward rounds = rounding(shape, segments);
  const auto check = [&](const AttendBackward& call, bool in_kernel, bool by_cast) {
    const ChosenBackward choice = choose_variant(call, options);
    CHECK(choice.by_k.ring == 8);
    CHECK(rounds_dq(choice, call) == in_kernel);
    CHECK(casts_dq(choice, call) == by_cast);
  };
  check(rounds, true, false);
  AttendBackward sum = rounds, added = rounds, unaligned = rounds;
  sum.rounded_dq.reset();
  check(sum, false, false);
  added.write_dq = Write::add;
  check(added, false, true);
  unaligned.rounded_dq->row_stride += 1;
  check(unaligned, false, true);
}

// The last piece of the first sequence ends where the second one begins, which is no whole cell.
TEST_CASE("rings: pieces that are not whole cells are neither stored nor rounded") {
  VariantOptions options = on_hopper;
  options.only = ordered_kernel;
  const Call shape{.S = 1000, .causal = false};
  const std::vector<Segment> segments = {{.q_count = 500, .k_count = 500},
                                         {.q_begin = 500, .q_count = 500, .k_begin = 500, .k_count = 500}};
  const AttendBackward call = rounding(shape, segments);
  const ChosenBackward choice = choose_variant(call, options);
  CHECK(choice.by_k.ring == 4);
  CHECK(!stores_first_dq(choice, call));
  CHECK(casts_dq(choice, call));
}

TEST_CASE(
    "rings: a full mask's tiles that take turns, up to a quarter of the multiprocessors, on a GPU alone") {
  const auto chosen = [](std::int64_t S, bool causal, VariantOptions options) {
    options.only = ordered_kernel;
    const Call call{.S = S, .B = 2, .causal = causal};
    const std::vector<Segment> segments = call.segments();
    const ChosenBackward choice = choose_variant(rounding(call, segments), options);
    CHECK(rounds_dq(choice, rounding(call, segments)) == (choice.by_k.ring > 0));
    CHECK(casts_dq(choice, rounding(call, segments)) == (choice.by_k.ring == 0));
    return choice.by_k.ring;
  };
  REQUIRE(most_ring_tiles(on_hopper.sms) == 33);
  CHECK(chosen(1024, false, on_hopper) == 8);
  CHECK(chosen(4096, false, on_hopper) == 32);
  CHECK(chosen(8192, false, on_hopper) == 0);
  CHECK(chosen(1024, true, on_hopper) == 0);
  CHECK(chosen(128, false, on_hopper) == 0);
  CHECK(chosen(2, false, on_hopper) == 0);
  VariantOptions shared = on_hopper;
  shared.shared_gpu = true;
  CHECK(chosen(1024, false, shared) == 0);
}

}  // namespace cplab::testing
