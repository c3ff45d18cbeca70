// Rotations against brute force: which distances are needed, which rows travel, and how many bytes that is.
#include "algorithms/core/rotation.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>

#include "algorithms/core/build.hpp"
#include "tests/algorithms/row_list.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::Shape;

namespace {

struct Ring {
  explicit Ring(const Shape& shape) : shape_(shape), scenario(testing::without_algorithm(shape)) {
    tokens = placed(scenario.problem, Placement(scenario.problem, scenario.parallel, scenario.placement, 0),
                    shape.ranks);
  }
  Rotation at(int place, Travel travel = Travel::needed, Phase phase = Phase::forward) const {
    return {tokens, window(), place, travel, phase};
  }
  Window window() const { return scenario.problem.band(); }
  std::vector<int> distances(Travel travel, Phase phase) const {
    const Rotation r = at(0, travel, phase);
    std::vector<int> list;
    for (int v = 0; v < r.visits(); ++v) list.push_back((tokens.size() - r.owner(v)) % tokens.size());
    return list;
  }

  Shape shape_;
  Scenario scenario;
  Distribution tokens;
};

std::set<std::int64_t> set_of_rows(const Rows& rows) {
  const std::vector<std::int64_t> list = testing::row_list(rows.ranges());
  return {list.begin(), list.end()};
}

// Rows of the owner's keys that a holder's queries see: of every run from the first to the last such row.
std::set<std::int64_t> seen_by(const Ring& ring, int holder, int owner) {
  std::set<std::int64_t> rows;
  const Window w = ring.window();
  for (const TokenRun& keys : ring.tokens[owner].runs) {
    std::int64_t first = -1, last = -2;
    for (std::int64_t k = 0; k < keys.valid; ++k) {
      bool live = false;
      for (const TokenRun& queries : ring.tokens[holder].runs)
        for (std::int64_t q = 0; q < queries.valid && queries.sequence == keys.sequence && !live; ++q) {
          const std::int64_t ahead = keys.position + k * keys.stride - queries.position - q * queries.stride;
          live = (w.left < 0 || ahead >= -w.left) && (w.right < 0 || ahead <= w.right);
        }
      if (!live) continue;
      if (first < 0) first = k;
      last = k;
    }
    for (std::int64_t k = first; k <= last; ++k) rows.insert(keys.row + k);
  }
  return rows;
}

std::vector<Ring> small_rings() {
  std::vector<Ring> rings;
  for (const char* placement : {"contiguous", "zigzag", "striped", "hybrid"})
    for (const int P : {1, 2, 3, 5})
      for (const Window w :
           {Window{-1, -1}, Window{-1, 0}, Window{4, 0}, Window{0, 0}, Window{2, 3}, Window{-1, 2}})
        for (const auto& lengths : std::vector<std::vector<std::int64_t>>{{30}, {7, 0, 1, 22}})
          rings.emplace_back(
              Shape{.ranks = P, .placement = placement, .lengths = lengths, .causal = false, .window = w});
  return rings;
}

std::string ring_name(const Ring& ring) {
  return ring.shape_.placement + " P " + std::to_string(ring.shape_.ranks) + " window " +
         std::to_string(ring.window().left) + "," + std::to_string(ring.window().right) + " sequences " +
         std::to_string(ring.shape_.lengths.size());
}

}  // namespace

TEST_CASE("rotation: needed distances and rows are those that somebody sees, by brute force") {
  for (const Ring& ring : small_rings()) {
    CAPTURE(ring_name(ring));
    const int P = ring.shape_.ranks;
    std::vector<int> distances{0};
    for (int d = 1; d < P; ++d) {
      bool some = false;
      for (int owner = 0; owner < P; ++owner) some |= !seen_by(ring, (owner + d) % P, owner).empty();
      if (some) distances.push_back(d);
    }
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      CHECK(ring.distances(Travel::needed, phase) == distances);
      for (int place = 0; place < P; ++place) {
        const Rotation r = ring.at(place, Travel::needed, phase);
        REQUIRE(r.visits() == static_cast<int>(distances.size()));
        for (int v = 0; v < r.visits(); ++v) {
          const int owner = (place - distances[static_cast<std::size_t>(v)] + P) % P;
          CHECK(r.owner(v) == owner);
          CHECK(r.holder(v) == (place + distances[static_cast<std::size_t>(v)]) % P);
          // What is here: all at home, elsewhere what this or a later holder sees.
          std::set<std::int64_t> here;
          for (std::size_t later = static_cast<std::size_t>(v); later < distances.size(); ++later)
            here.merge(seen_by(ring, (owner + distances[later]) % P, owner));
          if (v == 0)
            for (std::int64_t row = 0; row < ring.tokens[owner].rows(); ++row) here.insert(row);
          CHECK(set_of_rows(r.arrived(v)) == here);
          CHECK(r.leaving(v).common(r.ending(v)).empty());
          CHECK(r.leaving(v).united(r.ending(v)) == r.arrived(v));
          CHECK(r.returning(v).minus(ring.at(r.holder(v), Travel::needed, phase).ending(v)).empty());
          if (v + 1 == r.visits()) {
            CHECK(r.leaving(v).empty());
            continue;
          }
          // Both ends of a hop say the same.
          const Rotation next = ring.at(r.next(v), Travel::needed, phase);
          CHECK(next.owner(v + 1) == owner);
          CHECK(next.previous(v + 1) == place);
          CHECK(next.arrived(v + 1) == r.leaving(v));
        }
      }
    }
  }
}

TEST_CASE("rotation: whole, every member is visited with all rows, backward from where the forward stopped") {
  for (const int P : {1, 2, 5}) {
    const Ring ring({.ranks = P, .placement = "zigzag", .lengths = {30}});
    std::vector<int> forward, backward;
    for (int d = 0; d < P; ++d) forward.push_back(d), backward.insert(backward.begin(), d);
    CHECK(ring.distances(Travel::whole, Phase::forward) == forward);
    CHECK(ring.distances(Travel::whole, Phase::backward) == backward);
    for (int place = 0; place < P; ++place) {
      const Rotation r = ring.at(place, Travel::whole, Phase::backward);
      std::set<std::int64_t> seen;  // by holders before
      const int owner = (place + 1) % P;
      for (int v = 0; v < P; ++v) {
        CHECK(r.arrived(v).count() == ring.tokens[0].rows());
        CHECK(r.leaving(v).count() == (v + 1 < P ? ring.tokens[0].rows() : 0));
      }
      CHECK(r.ending(P - 1).count() == ring.tokens[0].rows());
      CHECK(r.owner(P - 1) == place);  // gradients end at home
      // The first visit is the member P - 1 to the left, which is the next one.
      CHECK(r.owner(0) == owner);
      CHECK(r.seen(0).empty());
    }
  }
}

TEST_CASE("rotation: rows that earlier holders have seen, by brute force") {
  for (const Ring& ring : small_rings()) {
    CAPTURE(ring_name(ring));
    const int P = ring.shape_.ranks;
    for (int place = 0; place < P; ++place) {
      const Rotation r = ring.at(place, Travel::whole, Phase::backward);
      for (int v = 0; v < r.visits(); ++v) {
        std::set<std::int64_t> before;
        for (int u = 0; u < v; ++u) before.merge(seen_by(ring, (r.owner(v) + P - 1 - u) % P, r.owner(v)));
        CHECK(set_of_rows(r.seen(v)) == before);
      }
    }
  }
}

TEST_CASE("rotation: the bytes that choose the default are those of the plan") {
  for (const Ring& ring : small_rings()) {
    CAPTURE(ring_name(ring));
    for (const char* rotation : {"whole", "needed"}) {
      Shape shape = ring.shape_;
      shape.algorithm = "ring";
      shape.options = {{"rotation", std::string(rotation)}};
      const Scenario s = testing::scenario(shape);
      // H = 2, G = 1, D = 16, E = 8: a row of K and V is 48 bytes in bf16, of their gradients 96 in fp32.
      double sent[2] = {0, 0};
      for (const RankPlan& rank : build_plan(s).ranks)
        for (const Operation& op : rank.operations)
          if (op.kind == OpKind::exchange) sent[static_cast<int>(op.phase)] += static_cast<double>(op.bytes);
      const Travel travel = std::string_view(rotation) == "whole" ? Travel::whole : Travel::needed;
      CHECK(rotation_bytes(ring.tokens, ring.window(), travel, Phase::forward, 48, 96) == sent[0]);
      CHECK(rotation_bytes(ring.tokens, ring.window(), travel, Phase::backward, 48, 96) == sent[1]);
    }
  }
}

// 1M tokens on 64 ranks with a window of 4095 keys to the left. Contiguous: 16384 rows a rank, a query sees
// at most 4095 keys before its own, so that only the last 4095 rows of a rank are seen by the next one, and
// nobody is the next one of the last.
TEST_CASE("rotation: of a window, contiguous, 4095 rows make one hop from each rank but the last") {
  const Shape shape{.ranks = 64,
                    .placement = "contiguous",
                    .lengths = {1 << 20},
                    .causal = true,
                    .window = {4095, 0},
                    .algorithm = "ring"};
  const Ring ring(shape);
  CHECK(ring.distances(Travel::needed, Phase::forward) == std::vector<int>{0, 1});
  for (int place = 0; place < 64; ++place) {
    const Rows leaving = ring.at(place).leaving(0);
    CHECK(leaving == (place < 63 ? Rows::range(16384 - 4095, 4095) : Rows()));
  }
  const Scenario s = testing::scenario(shape);
  CHECK(s.schedule.word("rotation") == "needed");
  const Plan plan = build_plan(s);
  for (const RankPlan& rank : plan.ranks) {
    std::int64_t forward = 0;
    for (const Operation& op : rank.operations)
      if (op.kind == OpKind::exchange && op.phase == Phase::forward) forward += op.bytes;
    CHECK(forward == (rank.rank < 63 ? 4095 * 24 * 2 : 0));
  }
}

// Zigzag: 8192 rows a chunk; rank p holds chunks p and 127 - p. The low chunk's keys are seen by rank p + 1
// (distance 1), the high chunk's by the holder of chunk 128 - p, rank p - 1 (distance P - 1).
TEST_CASE("rotation: of a window, zigzag, distances 0, 1 and P - 1") {
  const Ring ring(
      {.ranks = 64, .placement = "zigzag", .lengths = {1 << 20}, .causal = true, .window = {4095, 0}});
  CHECK(ring.distances(Travel::needed, Phase::forward) == std::vector<int>{0, 1, 63});
  CHECK(ring.distances(Travel::needed, Phase::backward) == std::vector<int>{0, 1, 63});
}

TEST_CASE("rotation: the default is what sends fewer bytes, whole where both send the same") {
  const auto default_of = [](const char* placement, Window window) {
    return testing::scenario({.ranks = 8,
                              .placement = placement,
                              .lengths = {256},
                              .causal = true,
                              .window = window,
                              .algorithm = "ring"})
        .schedule.word("rotation");
  };
  // Every key of a zigzag is seen by somebody all the way round; filtered, the gradients' way home is a hop
  // more.
  CHECK(default_of("zigzag", {}) == "whole");
  CHECK(default_of("striped", {}) == "whole");
  // Contiguous and causal: rank p is seen by P - 1 - p others only.
  CHECK(default_of("contiguous", {}) == "needed");
  CHECK(default_of("contiguous", {7, 0}) == "needed");
  CHECK(default_of("zigzag", {7, 0}) == "needed");
  const Ring ring({.ranks = 8, .placement = "contiguous", .lengths = {256}});
  double rows = 0;
  for (int p = 0; p < 8; ++p) rows += 32 * (7 - p);
  CHECK(rotation_bytes(ring.tokens, ring.window(), Travel::needed, Phase::forward, 1, 0) == rows);
}

// The choice rests on what is sent, however many pairs of ranks there are to ask. Contiguous: of the P (P -
// 1) hops of a whole rotation half are needed without a window, P - 1 with one of a rank's keys; a zigzag
// needs all.
TEST_CASE("rotation: the default does not change with the number of ranks alone") {
  for (const int P : {8, 64, 544, 552, 1024}) {
    CAPTURE(P);
    const auto default_of = [&](const char* placement, Window window) {
      return testing::scenario({.ranks = P,
                                .placement = placement,
                                .lengths = {P * 8},
                                .causal = true,
                                .window = window,
                                .algorithm = "ring"})
          .schedule.word("rotation");
    };
    CHECK(default_of("contiguous", {7, 0}) == "needed");
    CHECK(default_of("contiguous", {}) == "needed");
    CHECK(default_of("zigzag", {}) == "whole");
  }
}

// Sequences of 4 and 30 tokens, padded to 32, on 4 ranks in pieces of 8: the first one ends on rank 0, so
// none of its rows leaves; of the other, rows of rank 3 are seen by nobody behind it.
TEST_CASE("rotation: rows of sequences that end on a rank do not travel on") {
  const Ring ring({.ranks = 4, .placement = "contiguous", .lengths = {4, 30}, .padded_lengths = {32, 32}});
  CHECK(ring.at(0).leaving(0) == Rows::range(8, 8));
  CHECK(ring.at(1).leaving(0) == Rows::range(8, 8));
  CHECK(ring.at(2).leaving(0) == Rows::range(8, 8));
  CHECK(ring.at(3).leaving(0).empty());
  // Where all end at home nothing moves at all.
  const Ring short_ones(
      {.ranks = 4, .placement = "contiguous", .lengths = {8, 3}, .padded_lengths = {32, 32}});
  CHECK(short_ones.distances(Travel::needed, Phase::forward) == std::vector<int>{0});
}
