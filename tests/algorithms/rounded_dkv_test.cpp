// dk and dv of grouped heads that a tile may sum before it rounds them: where plans make room for the sums,
// and what the checker says of mistakes.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/rounding_tile.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

// Of 4 query heads on 2 key heads.
Scenario grouped(const std::string& algorithm, int ranks) {
  Scenario s = testing::any_scenario(ranks, algorithm);
  s.problem.dtype = DType::bf16;
  return s;
}

int tiles_that_round(const RankPlan& rank) {
  int tiles = 0;
  for (const Operation& op : rank.operations) {
    const bool dk = rank.find(op, Operand::rounded_dk) != nullptr;
    CHECK(dk == (rank.find(op, Operand::rounded_dv) != nullptr));
    tiles += dk;
  }
  return tiles;
}

const Buffer* find_sums(const RankPlan& rank) {
  for (const Buffer& buffer : rank.buffers)
    if (buffer.name == "dkv_sum") return &buffer;
  return nullptr;
}

}  // namespace

// 192 rows of 2 key heads, 8 columns of keys and 8 of values, fp32.
TEST_CASE("a tile that stores dk and dv of grouped heads may sum them") {
  const Plan plan = build_plan(grouped("ring", 1));
  require_right(plan);
  CHECK(tiles_that_round(plan.ranks[0]) == 1);
  const Buffer* sums = find_sums(plan.ranks[0]);
  REQUIRE(sums != nullptr);
  CHECK(sums->role == Role::wide);
  CHECK(sums->category == Category::working);
  CHECK(sums->bytes == 192 * 2 * (8 + 8) * 4);
  CHECK(sums->planes == 8);
}

TEST_CASE("ranks of all_to_all have room for sums of the key heads that they attend") {
  for (const int P : {1, 2}) {
    const Plan plan = build_plan(grouped("all_to_all", P));
    require_right(plan);
    for (const RankPlan& rank : plan.ranks) {
      CHECK(tiles_that_round(rank) == 1);
      REQUIRE(find_sums(rank) != nullptr);
      CHECK(find_sums(rank)->heads == 2 / P);
    }
  }
}

// Kernels split query heads where all that has rows of keys lies alike (row_space.hpp). Ranks of head_strided
// have prefixes of two sequences.
TEST_CASE("sums of dk and dv lie as what they are rounded to") {
  for (const char* const algorithm : {"head_strided", "all_gather", "all_to_all", "ring"})
    for (const int P : {1, 2, 4}) {
      CAPTURE(algorithm);
      CAPTURE(P);
      const Plan plan = build_plan(grouped(algorithm, P));
      require_right(plan);
      for (const RankPlan& rank : plan.ranks)
        for (const Operation& op : rank.operations) {
          if (rank.find(op, Operand::rounded_dk) == nullptr) continue;
          const View &sum = rank.view_of(op, Operand::dk), &rounded = rank.view_of(op, Operand::rounded_dk);
          CHECK(sum.ranges == rounded.ranges);
          CHECK(rank.buffers[sum.buffer].rows == rank.buffers[rounded.buffer].rows);
        }
    }
}

TEST_CASE("nothing is summed where heads are not grouped, gradients are sums already, or nothing is wider") {
  const auto of = [](auto change) {
    Scenario s = grouped("ring", 1);
    change(s);
    const Plan plan = build_plan(testing::resolve_with_heads(s));
    return tiles_that_round(plan.ranks[0]);
  };
  CHECK(of([](Scenario&) {}) == 1);
  CHECK(of([](Scenario& s) { s.problem.kv_heads = s.problem.heads; }) == 0);
  CHECK(of([](Scenario& s) { s.problem.dtype = DType::fp64; }) == 0);
  CHECK(of([](Scenario& s) { s.schedule.set("accumulator", std::string("nominal")); }) == 0);
  CHECK(of([](Scenario& s) {
          testing::take_attention(s.problem, Attention::dynamic_mask);
          s.problem.bias = BiasForm::keys;
        }) == 0);
  CHECK(tiles_that_round(build_plan(grouped("ring", 2)).ranks[0]) == 0);
}

// 2048 tiles of 128 keys, all key heads together, are enough for any GPU.
TEST_CASE("sums of dk and dv take room for less than 256 K keys of all heads") {
  for (const std::int64_t tokens : {128 * 1024 - 64, 128 * 1024}) {
    Scenario s = grouped("ring", 1);
    s.problem.lengths = s.problem.padded_lengths = {tokens};
    s.problem.batch = 1;
    const Plan plan = build_plan(testing::resolve_with_heads(s));
    CHECK(tiles_that_round(plan.ranks[0]) == (tokens < 128 * 1024 ? 1 : 0));
  }
}

TEST_CASE("rounded dk and dv: the sums hold nothing afterwards") {
  const Plan plan = build_plan(grouped("ring", 1));
  require_anywhere(with_cast_behind(plan, Operand::dk, Operand::rounded_dk), FindingKind::uninitialised);
  require_anywhere(with_cast_behind(plan, Operand::dv, Operand::rounded_dv), FindingKind::uninitialised);
}

TEST_CASE("rounded dk and dv: what is malformed") {
  const Plan plan = build_plan(grouped("ring", 1));
  for (const auto& [sum, rounded] :
       {std::pair(Operand::dk, Operand::rounded_dk), std::pair(Operand::dv, Operand::rounded_dv)})
    check_malformed(plan, sum, rounded, "must write rounded_dk and rounded_dv, and dk, with store",
                    "writes a rounded_dk or rounded_dv that does not fit its k and v");
  require_message(with_changed_writes(plan, Operand::rounded_dk,
                                      [](RankPlan&, Access& a) {  // twice, and the other not at all
                                        if (a.operand == Operand::rounded_dv) a.operand = Operand::rounded_dk;
                                      }),
                  "has operands under other names than its kind has");
}
