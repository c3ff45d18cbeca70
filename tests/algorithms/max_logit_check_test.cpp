// The checker on what a maximum is over: plans that ask for max_logit, and single mistakes in them.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/collective_plans.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;
using namespace cplab::hand;

namespace {

std::uint32_t index_of(const RankPlan& rank, OpKind kind) {
  for (std::uint32_t i = 0; i < rank.operations.size(); ++i)
    if (rank.operations[i].kind == kind) return i;
  FAIL("there is no such operation");
  return 0;
}

Plan of_ring(int P, const std::vector<std::pair<std::string, OptionValue>>& options = {}) {
  Scenario s = testing::any_scenario(P, "ring");
  s.problem.max_logit = true;
  for (const auto& [key, value] : options) s.schedule.set(key, value);
  return build_plan(s);
}

// Every write of that operand of every attend, changed.
template <class Change>
void change_max_logit(RankPlan& rank, Change change) {
  for (Operation& op : rank.operations) {
    if (op.kind != OpKind::attend) continue;
    std::vector<Access> writes(rank.writes(op).begin(), rank.writes(op).end());
    for (Access& access : writes)
      if (access.operand == Operand::max_logit) change(rank, access);
    op.writes = add_accesses(rank, writes);
  }
}

}  // namespace

TEST_CASE("max_logit: right plans, by hand and of every algorithm") {
  for (const int P : {1, 2, 3}) require_right(raised(P));
  for (const Algorithm& algorithm : algorithms()) {
    if (testing::attention_of(std::string(algorithm.name)) != Attention::softmax) continue;
    for (const int P : {1, 2, 3, 5, 8}) {
      Scenario s = testing::any_scenario(P, std::string(algorithm.name));
      s.problem.max_logit = true;
      require_right(build_plan(s));
      s.parallel.replicas = 2;
      s.parallel.groups.clear();
      require_right(build_plan(testing::resolve_with_heads(s)));
    }
  }
}

TEST_CASE("max_logit: no maximum over the ranks, or a sum in its place") {
  for (Plan plan : {raised(3), of_ring(3)}) {
    Plan sum = plan;
    for (RankPlan& rank : plan.ranks) {
      remove_operation(rank, index_of(rank, OpKind::all_reduce));
      derive_edges(rank);
    }
    const CheckResult result = check(plan);
    INFO(text(result));
    REQUIRE(result.findings.size() == 3);  // on every rank: it has its own queries alone
    for (const Finding& f : result.findings) {
      CHECK(f.kind == FindingKind::coverage);
      CHECK(f.buffer == "max_logit");
      CHECK(f.message.find("lacks") != std::string::npos);
    }
    for (RankPlan& rank : sum.ranks)
      rank.operations[index_of(rank, OpKind::all_reduce)].reduction = Reduction::sum;
    require_message(sum, "adds max_logit to max_logit");
    require_anywhere(sum, FindingKind::coverage);
  }
}

TEST_CASE("max_logit: a tile that does not raise it") {
  Plan plan = of_ring(4);
  RankPlan& rank = plan.ranks[2];
  Operation& op = rank.operations[index_of(rank, OpKind::attend)];
  std::vector<Access> writes(rank.writes(op).begin(), rank.writes(op).end());
  std::erase_if(writes, [](const Access& a) { return a.operand == Operand::max_logit; });
  op.writes = add_accesses(rank, writes);
  for (RankPlan& each : plan.ranks) derive_edges(each);
  const CheckResult result = check(plan);
  INFO(text(result));
  REQUIRE(result.findings.size() == 4);  // it is missing on all ranks
  for (const Finding& f : result.findings) CHECK(f.kind == FindingKind::coverage);
}

TEST_CASE("max_logit: one lane's maximum stored over the other's, added, or left out") {
  const auto changed = [](auto change) {
    Plan plan = raised(2);
    RankPlan& rank = plan.ranks[1];
    const std::uint32_t i = index_of(rank, OpKind::maximum);
    change(rank, i);
    for (RankPlan& each : plan.ranks) derive_edges(each);
    return plan;
  };
  const auto as = [](OpKind kind, WriteMode mode) {
    return [=](RankPlan& rank, std::uint32_t i) {
      Operation& op = rank.operations[i];
      op.kind = kind;
      std::vector<Access> writes(rank.writes(op).begin(), rank.writes(op).end());
      writes[0].mode = mode;
      op.writes = add_accesses(rank, writes);
    };
  };
  require_anywhere(changed(as(OpKind::copy, store)), FindingKind::coverage);
  require_anywhere(changed(as(OpKind::add, add)), FindingKind::coverage);
  require_anywhere(changed([](RankPlan& rank, std::uint32_t i) { remove_operation(rank, i); }),
                   FindingKind::coverage);
}

TEST_CASE("max_logit: raised from what nobody has written, or from 0") {
  Plan plan = raised(2);
  RankPlan& rank = plan.ranks[0];
  Operation& fill = rank.operations[index_of(rank, OpKind::fill)];
  Plan zero = plan;
  zero.ranks[0].operations[index_of(zero.ranks[0], OpKind::fill)].value = 0;
  require_anywhere(zero, FindingKind::coverage);  // a maximum that is below 0 would be lost
  fill.kind = OpKind::host_sync;
  fill.reads = fill.writes = {};
  require_anywhere(plan, FindingKind::uninitialised);
}

TEST_CASE("max_logit: lanes that raise one row without an order race") {
  Plan plan = raised(2);
  RankPlan& rank = plan.ranks[0];
  std::uint32_t first = UINT32_MAX;
  change_max_logit(rank, [&](RankPlan&, Access& access) {
    if (first == UINT32_MAX) first = access.view;
    access.view = first;  // of other heads for the second, too
  });
  require_anywhere(plan, FindingKind::race);
  derive_edges(rank);  // ordered, the second tile still raises the first one's heads
  require_anywhere(plan, FindingKind::coverage);
}

TEST_CASE("max_logit: operands of the wrong form") {
  const auto broken = [](auto change) {
    Plan plan = raised(2);
    change_max_logit(plan.ranks[0], change);
    return plan;
  };
  require_message(broken([](RankPlan&, Access& a) { a.mode = store; }), "must write max_logit with max");
  require_message(broken([](RankPlan& rank, Access& a) {
                    View view = rank.views[a.view];
                    view.head_end = view.head_begin + 1;
                    a.view = add_view(rank, view);
                  }),
                  "writes a max_logit that is not one number for each query head");
  require_message(
      broken([](RankPlan& rank, Access& a) { rank.buffers[rank.views[a.view].buffer].role = Role::nominal; }),
      "wrong dtype role");
  Plan plan = raised(2);
  RankPlan& rank = plan.ranks[0];
  Operation& op = rank.operations[index_of(rank, OpKind::attend)];
  std::vector<Access> writes(rank.writes(op).begin(), rank.writes(op).end());
  for (Access& a : writes)
    if (a.operand != Operand::max_logit) a.mode = WriteMode::max;
  op.writes = add_accesses(rank, writes);
  require_message(plan, "must write out and lse both with store or both with merge");
}

TEST_CASE("max_logit: an output that the problem has and the plan has not, and the other way round") {
  Plan plan = raised(2);
  plan.scenario.problem.max_logit = false;
  require_anywhere(plan, FindingKind::leak);
  Plan other = gathered(2, 4);
  other.scenario.problem.max_logit = true;
  require_anywhere(other, FindingKind::uninitialised);
}

TEST_CASE("max_logit: only softmax attention has it") {
  Scenario s = testing::any_scenario(2, "ring");
  s.problem.max_logit = true;
  require_sizes(s.problem, s.parallel);
  s.problem.attention = Attention::linear;
  CHECK_THROWS_WITH_AS(require_sizes(s.problem, s.parallel),
                       "only softmax attention has logits; legal with linear: false", ScenarioError);
}
