// delta that a backward tile computes itself: in which plans, and what the checker says of mistakes in it.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/rounding_tile.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

// The kinds of the operations that write delta.
std::vector<OpKind> writers_of_delta(const RankPlan& rank) {
  std::vector<OpKind> kinds;
  for (const Operation& op : rank.operations) {
    const auto writes = rank.writes(op);
    if (std::ranges::count(writes, Operand::delta, &Access::operand) > 0) kinds.push_back(op.kind);
  }
  return kinds;
}

template <class Change>
Plan with_changed_reads(const Plan& plan, Change change) {
  return with_changed(plan, Operand::out, &Operation::reads, change);
}

using Kinds = std::vector<OpKind>;

}  // namespace

// In a ring of two, the rank that has all queries in its first tile adds to nothing there either; but it has
// a message to send before, and sends it first.
TEST_CASE("the first tile computes delta if it has all rows, stores dq and nothing comes before it") {
  CHECK(writers_of_delta(plan_of("ring", 1).ranks[0]) == Kinds{OpKind::attend_backward});
  CHECK(writers_of_delta(plan_of("all_to_all", 1).ranks[0]) == Kinds{OpKind::attend_backward});
  for (const RankPlan& rank : plan_of("ring", 2).ranks)
    CHECK(writers_of_delta(rank) == Kinds{OpKind::row_dot});
  for (const RankPlan& rank : plan_of("all_to_all", 2).ranks)
    CHECK(writers_of_delta(rank) == Kinds{OpKind::row_dot});
}

TEST_CASE("delta may be asked for as an operation of its own") {
  for (const char* algorithm : {"ring", "all_to_all", "all_gather"}) {
    Scenario s = testing::any_scenario(1, algorithm);
    s.schedule.set("row_dot", std::string("apart"));
    const Plan plan = build_plan(s);
    require_right(plan);
    CHECK(writers_of_delta(plan.ranks[0]) == Kinds{OpKind::row_dot});
  }
}

TEST_CASE("dynamic masks: row_dot computes delta") {
  Scenario s = testing::any_scenario(1, "ring");
  testing::take_attention(s.problem, Attention::dynamic_mask);
  s.problem.bias = BiasForm::keys;
  CHECK(writers_of_delta(build_plan(testing::resolve_with_heads(s)).ranks[0]) == Kinds{OpKind::row_dot});
}

// The tiles of parts of the heads each need a part of delta.
TEST_CASE("tiles of some heads leave delta to row_dot") {
  Scenario s = testing::any_scenario(1, "head_strided");
  s.problem.heads = s.problem.kv_heads = 4;
  s.schedule.set("head_stride", std::int64_t{2});
  const Plan plan = build_plan(s);
  require_right(plan);
  CHECK(writers_of_delta(plan.ranks[0]) == Kinds{OpKind::row_dot});
}

TEST_CASE("computed delta: from an out that is another tensor") {
  const Plan plan = with_changed_reads(plan_of("ring", 1), [](RankPlan& rank, Access& a) {
    if (a.operand == Operand::out) a.view = rank.find(rank.operations.back(), Operand::dout)->view;
  });
  require_anywhere(plan, FindingKind::coverage);
}

TEST_CASE("computed delta: what is malformed") {
  const Plan plan = plan_of("ring", 1);
  require_message(with_changed_writes(plan, Operand::delta,
                                      [](RankPlan&, Access& a) {
                                        if (a.operand == Operand::delta) a.mode = WriteMode::add;
                                      }),
                  "must write delta with store");
  require_message(with_changed_reads(plan,
                                     [](RankPlan& rank, Access& a) {
                                       if (a.operand != Operand::out) return;
                                       View of_half = rank.views[a.view];
                                       of_half.head_end = of_half.head_begin + 1;
                                       a.view = add_view(rank, of_half);
                                     }),
                  "has operands whose shapes do not fit each other");
  require_message(with_changed_reads(plan,
                                     [](RankPlan& rank, Access& a) {
                                       if (a.operand == Operand::out)
                                         a.view = rank.find(rank.operations.back(), Operand::dq)->view;
                                     }),
                  "has an operand of the wrong dtype role");
}
