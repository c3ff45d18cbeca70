// The checker accepts every plan, and its figures are those of the plan and of the problem.
#include "check/check.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "algorithms/core/build.hpp"
#include "tests/scenarios/scenarios_of.hpp"
#include "tests/scenarios/seen_pairs.hpp"

using namespace cplab;

namespace {

// Of all sequences, by going through them: no segment is involved.
double visible_pairs(const Problem& p) {
  double pairs = 0;
  for (std::size_t b = 0; b < p.lengths.size(); ++b)
    for (std::int64_t q = 0; q < p.lengths[b]; ++q)
      for (std::int64_t k = 0; k < p.lengths_of(Side::keys)[b]; ++k) pairs += testing::sees(p, b, q, k);
  return pairs;
}

}  // namespace

TEST_CASE("check finds nothing in any plan") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    for (const Finding& f : check(build_plan(scenario)).findings)
      FAIL_CHECK(cplab::name(f.kind) << " rank " << f.rank << " " << f.operation << ": " << f.message);
  }
}

TEST_CASE("messages and bytes that check counts are the parts of the plan") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const CheckResult result = check(plan);
    std::int64_t messages = 0;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      const RankPlan& rank = plan.ranks[r];
      std::int64_t sent = 0;
      for (const Operation& op : rank.operations) {
        for (const Part& part : rank.parts_of(op)) {
          if (!part.send || part.peer == rank.rank) continue;  // what stays at home is no message
          ++messages;
          sent += view_bytes(rank, rank.views[part.view], scenario.problem.dtype);
        }
      }
      CHECK(result.sent_bytes[r] == sent);
    }
    CHECK(result.messages == messages);
  }
}

TEST_CASE("FLOPs are those of the visible pairs, whatever the algorithm, its placement and schedule") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    const Problem& p = scenario.problem;
    if (p.attention != Attention::softmax) continue;
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const CheckResult result = check(plan);
    double all = 0;  // but for projections of latents, of as many rows as the algorithm makes anew
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      double of_rank = 0;
      for (const Operation& op : plan.ranks[r].operations) {
        of_rank += op.flops;
        if (op.kind == OpKind::attend || op.kind == OpKind::attend_backward) all += op.flops;
      }
      CHECK(result.flops[r] == of_rank);
    }
    const std::int64_t D = p.head_size, E = p.value_size;
    const std::int64_t products = 2 * (D + E) + (p.direction == Direction::forward ? 0 : 2 * (3 * D + 2 * E));
    CHECK(all == visible_pairs(p) * static_cast<double>(p.heads * products));
  }
}
