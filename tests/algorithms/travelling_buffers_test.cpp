// Buffers of what travels where only rows travel that are needed: as many rows as come at once, not a rank's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "algorithms/core/build.hpp"
#include "algorithms/core/rows.hpp"
#include "derive/memory.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::Shape;
using testing::word;

namespace {

constexpr std::int64_t n = 64, W = 5;  // rows of a rank; a query sees so many tokens before it

Shape windowed(const char* algorithm, int P) {
  Shape shape{
      .ranks = P, .placement = "contiguous", .lengths = {n * P}, .heads = 4, .kv_heads = 2, .head_size = 8};
  shape.value_size = 8, shape.algorithm = algorithm, shape.window.left = W;
  return shape;
}

std::int64_t rows_of(const RankPlan& rank, const std::string& name) {
  const auto at = std::ranges::find(rank.buffers, name, &Buffer::name);
  return at == rank.buffers.end() ? -1 : at->slots * at->rows;
}

std::int64_t peak(const Plan& plan) {
  std::int64_t most = 0;
  for (const RankPlan& rank : plan.ranks) most = std::max(most, plan_memory(rank).live_peak_bytes);
  return most;
}

}  // namespace

TEST_CASE("rows by their places among others") {
  const Rows all = Rows::range(2, 3).united(Rows::range(10, 4)).united(Rows::range(20, 1));
  CHECK(all.places_in(all) == Rows::range(0, 8));
  CHECK(Rows::range(11, 2).places_in(all) == Rows::range(4, 2));
  CHECK(Rows::range(4, 1).united(Rows::range(13, 1)).united(Rows::range(20, 1)).places_in(all) ==
        Rows::range(2, 1).united(Rows::range(6, 2)));
  CHECK(Rows().places_in(all).empty());
  for (const Rows& none : {Rows::range(1, 2), Rows::range(5, 1), Rows::range(13, 2), Rows::range(30, 1)})
    CHECK_THROWS_AS((void)none.places_in(all), std::logic_error);
}

// A query sees the last W rows of the rank before: they come once, and as many gradients go home. The sum of
// the own rows has all of them.
TEST_CASE("a ring with a window has slots of a window's rows") {
  for (const char* wire : {"fp32", "nominal"}) {
    Shape shape = windowed("ring", 4);
    shape.options = {
        {"rotation", word("needed")}, {"gradient_wire_dtype", word(wire)}, {"gradient_sum", word("apart")}};
    const Plan plan = build_plan(testing::scenario(shape));
    hand::require_right(plan);
    const RankPlan& rank = plan.ranks[1];
    CHECK(rows_of(rank, "kv_slots") == W);
    CHECK(rows_of(rank, "kv_slots_backward") == W);
    CHECK(rows_of(rank, "dkv_tile") == W);
    CHECK(rows_of(rank, "dkv_sum") == n);
    CHECK(rows_of(rank, "dkv_slots") == W);
    CHECK(rows_of(rank, "dkv_home") == (std::string(wire) == "fp32" ? W : -1));
  }
}

TEST_CASE("where nearly all rows of a rank travel, the own sum shares a slot with others") {
  Shape shape = windowed("ring", 3);
  shape.window.left = n - 4;
  shape.options = {{"rotation", word("needed")}, {"gradient_sum", word("apart")}};
  const Plan plan = build_plan(testing::scenario(shape));
  hand::require_right(plan);
  CHECK(rows_of(plan.ranks[1], "dkv_slots") == 2 * n);
  CHECK(rows_of(plan.ranks[1], "dkv_sum") == -1);
}

TEST_CASE("a window makes every ring's peak smaller, and a gather's") {
  for (const char* algorithm : {"ring", "double_ring", "bidirectional", "hierarchical", "all_gather"}) {
    CAPTURE(algorithm);
    const bool gathers = std::string(algorithm) == "all_gather";
    const char* key = gathers ? "gather" : "rotation";
    Shape shape = windowed(algorithm, 8);
    if (std::string(algorithm) == "hierarchical") shape.options = {{"inner_ranks", std::int64_t{2}}};
    Shape whole = shape;
    shape.options.push_back({key, word("needed")});
    whole.options.push_back({key, word(gathers ? "all" : "whole")});
    const Plan needed = build_plan(testing::scenario(shape)), all = build_plan(testing::scenario(whole));
    hand::require_right(needed);
    CHECK(peak(needed) < peak(all));
  }
}

TEST_CASE("halves of the keys: slots of half of a rank's rows") {
  Shape shape = windowed("bidirectional", 4);
  shape.window.left = -1;
  shape.options = {{"halves", word("keys")}, {"rotation", word("whole")}};
  const Plan plan = build_plan(testing::scenario(shape));
  hand::require_right(plan);
  for (const RankPlan& rank : plan.ranks)
    for (const char* name : {"kv_slots", "kv_slots_2", "dkv_slots", "dkv_slots_2"})
      CHECK(rows_of(rank, name) == 2 * n / 2);
}
