// The tree over affine maps: right for every number of ranks, with as many rounds and messages as a tree
// takes, and a checker that knows that transitions do not commute.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/logarithms.hpp"
#include "tests/exec/linear_spec.hpp"

namespace cplab {
namespace {

LinearScenarioSpec tree(std::int64_t ranks, Transition transition) {
  LinearScenarioSpec spec;
  spec.algorithm = "affine_blelloch";
  spec.ranks = ranks;
  spec.transition = transition;
  spec.head_size = spec.value_size = 4;
  return spec;
}

std::string messages_of(const CheckResult& result) {
  std::string text;
  for (const Finding& finding : result.findings) text += finding.message + "\n";
  return text;
}

// Of the combinations that compose transitions the one with that number, of any rank.
std::pair<RankPlan*, Operation*> composition(Plan& plan, Phase phase, int number) {
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations)
      if (op.kind == OpKind::combine && op.phase == phase &&
          rank.mode_of(op, Operand::into) == WriteMode::store && number-- == 0)
        return {&rank, &op};
  return {};
}

TEST_CASE("affine_blelloch: rounds and messages for every P") {
  // A scan of the P - 1 indices that something follows, and the shift. In the up-sweep a transition travels
  // wherever what is joined does not begin at index 0: nothing is joined to a prefix.
  for (int P = 1; P <= 33; ++P) {
    CAPTURE(P);
    int moves = 0, transitions = 0;
    const int n = P - 1;
    for (int s = 1; s < n; s *= 2) {
      const int up = n / (2 * s);
      moves += up + (n - s) / (2 * s);
      transitions += std::max(0, up - 1);
    }
    LinearScenarioSpec spec = tree(P, Transition::matrix);
    spec.sequence = 2 * P;
    const CheckResult both = check(build_plan(linear_scenario(spec)));
    CHECK_MESSAGE(both.ok(), messages_of(both));
    CHECK(both.messages == 2 * (n + moves + transitions));
    using testing::floor_log2;
    CHECK(both.rounds == 2 * (n < 1 ? 0 : n < 2 ? 1 : floor_log2(n) + floor_log2(2 * n / 3) + 1));
  }
}

TEST_CASE("affine_blelloch: every P is within tolerance") {
  for (std::int64_t P = 1; P <= 9; ++P) {
    for (const auto& [transition, gate] : gated_transitions) {
      for (const DType dtype : {DType::fp64, DType::fp32}) {
        LinearScenarioSpec spec = tree(P, transition);
        spec.gate = gate;
        spec.dtype = dtype;
        CAPTURE(P);
        CAPTURE(name(transition));
        CAPTURE(name(dtype));
        (void)verify_linear(spec);
        spec.options = {{"between", std::string("layers")}};
        spec.placement = "stream";
        spec.lengths = {23, 0, 61, 1};
        spec.padded_lengths = {25, 3, 61, 1};
        (void)verify_linear(spec);
      }
    }
  }
}

TEST_CASE("check: transitions are composed in the order of their tokens") {
  const auto swapped = [](Transition transition, Phase phase) {
    Plan plan = build_plan(linear_scenario(tree(8, transition)));
    const auto [rank, op] = composition(plan, phase, 0);
    REQUIRE(op != nullptr);
    std::swap(rank->accesses[op->reads.first].view, rank->accesses[op->reads.first + 1].view);
    return check(plan);
  };
  for (const Phase phase : {Phase::forward, Phase::backward}) {
    CHECK(messages_of(swapped(Transition::matrix, phase)).find("which do not follow them") !=
          std::string::npos);
    CHECK(swapped(Transition::column, phase).ok());  // factors commute
  }
}

TEST_CASE("check: transitions are neither added up, transposed, composed twice nor taken for states") {
  const auto changed = [](const auto& change) {
    Plan plan = build_plan(linear_scenario(tree(8, Transition::matrix)));
    const auto [rank, op] = composition(plan, Phase::forward, 0);
    REQUIRE(op != nullptr);
    change(*rank, *op);
    return messages_of(check(plan));
  };
  using Text = std::string;
  CHECK(changed([](RankPlan& rank, Operation& op) {
          rank.accesses[op.writes.first].mode = WriteMode::add;
        }).find("adds up transitions") != Text::npos);
  CHECK(changed([](RankPlan&, Operation& op) { op.reverse = true; }).find("from right to left") !=
        Text::npos);
  CHECK(changed([](RankPlan& rank, Operation& op) {
          rank.accesses[op.reads.first].view = rank.accesses[op.reads.first + 1].view;
        }).find("which do not follow them") != Text::npos);
  // The state that came with the transition, in its place.
  CHECK(changed([](RankPlan& rank, Operation& op) {
          const auto arrived = std::ranges::find(rank.buffers, "received_state", &Buffer::name);
          View state = rank.views[rank.accesses[op.reads.first].view];
          state.buffer = static_cast<std::uint32_t>(arrived - rank.buffers.begin());
          rank.views.push_back(state);
          rank.accesses[op.reads.first].view = static_cast<std::uint32_t>(rank.views.size() - 1);
        }) != "");
}

}  // namespace
}  // namespace cplab
