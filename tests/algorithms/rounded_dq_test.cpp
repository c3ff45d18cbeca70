// dq that the tiles of a backward round themselves: where plans ask for it, and what the checker says of
// mistakes in it.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/rounding_tile.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

// Operations of a rank that round dq: as backward tiles, and as casts.
std::pair<int, int> tiles_and_casts(const RankPlan& rank) {
  std::pair<int, int> found;
  for (const Operation& op : rank.operations) {
    found.first += rank.find(op, Operand::rounded_dq) != nullptr;
    found.second +=
        op.kind == OpKind::cast && rank.buffers[rank.view_of(op, Operand::into).buffer].name == "dq";
  }
  return found;
}

using RoundingCounts = std::pair<int, int>;

}  // namespace

// A ring of two adds a second tile to the first one's dq. Ranks that have all keys have one tile, or one for
// every part of the heads.
TEST_CASE("tiles that store dq once round it, else a cast does") {
  CHECK(tiles_and_casts(plan_of("ring", 1).ranks[0]) == RoundingCounts{1, 0});
  CHECK(tiles_and_casts(plan_of("ring", 2).ranks[0]) == RoundingCounts{0, 1});
  CHECK(tiles_and_casts(plan_of("all_to_all", 1).ranks[0]) == RoundingCounts{1, 0});
  for (const RankPlan& rank : plan_of("all_gather", 4).ranks) {
    const auto [tiles, casts] = tiles_and_casts(rank);
    CHECK(tiles >= 1);
    CHECK(casts == 0);
  }
  for (const RankPlan& rank : plan_of("all_to_all", 2).ranks) CHECK(tiles_and_casts(rank).first == 1);
}

TEST_CASE("sequences of more than 1024 tokens leave it to a cast") {
  for (const std::int64_t tokens : {1024, 1025}) {
    Scenario s = testing::any_scenario(1, "ring");
    s.problem.lengths = s.problem.padded_lengths = {64, tokens};
    s.problem.batch = 2;
    const Plan plan = build_plan(testing::resolve_with_heads(s));
    require_right(plan);
    CHECK(tiles_and_casts(plan.ranks[0]) == (tokens == 1024 ? RoundingCounts{1, 0} : RoundingCounts{0, 1}));
  }
}

TEST_CASE("nothing is rounded where dq is summed in the problem's dtype") {
  CHECK(tiles_and_casts(plan_of("ring", 1, DType::fp64).ranks[0]) == RoundingCounts{0, 0});
  Scenario s = testing::any_scenario(1, "ring");
  s.schedule.set("accumulator", std::string("nominal"));
  CHECK(tiles_and_casts(build_plan(s).ranks[0]) == RoundingCounts{0, 0});
}

TEST_CASE("dynamic masks: a cast rounds dq") {
  Scenario s = testing::any_scenario(1, "ring");
  testing::take_attention(s.problem, Attention::dynamic_mask);
  s.problem.bias = BiasForm::keys;
  const Plan plan = build_plan(testing::resolve_with_heads(s));
  require_right(plan);
  CHECK(tiles_and_casts(plan.ranks[0]) == RoundingCounts{0, 1});
}

TEST_CASE("plans with a rounded dq are right, for every algorithm") {
  for (const Algorithm& algorithm : algorithms()) {
    if (testing::attention_of(std::string(algorithm.name)) != Attention::softmax) continue;
    for (const int P : {1, 2, 3, 4})
      require_right(build_plan(testing::any_scenario(P, std::string(algorithm.name))));
  }
}

TEST_CASE("rounded dq: the sum holds nothing afterwards") {
  require_anywhere(with_cast_behind(plan_of("ring", 1), Operand::dq, Operand::rounded_dq),
                   FindingKind::uninitialised);
}

TEST_CASE("rounded dq: what is malformed") {
  check_malformed(plan_of("ring", 1), Operand::dq, Operand::rounded_dq, "must write rounded_dq with store",
                  "writes a rounded_dq that does not fit its q");
}
