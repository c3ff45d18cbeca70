// Phases of repeated executions.
#include "exec/repeated.hpp"

#include <doctest/doctest.h>

namespace cplab {

TEST_CASE("phases are medians over the repetitions, of the forward and of what is left") {
  Plan plan;
  plan.ranks.resize(1);
  plan.ranks[0].operations.resize(2);
  plan.ranks[0].operations[1].phase = Phase::backward;
  // Wholes of 10, 14, 11 with forwards of 4, 5, 3: backwards of 6, 9, 8.
  const std::vector<PhaseTime> phases = median_phases(plan, {10, 14, 11}, {4, 5, 3});
  REQUIRE(phases.size() == 2);
  CHECK(phases[0].phase == Phase::forward);
  CHECK(phases[0].time_s == 4);
  CHECK(phases[1].phase == Phase::backward);
  CHECK(phases[1].time_s == 8);
  // One phase, no repetition, or forwards that nobody timed.
  CHECK(median_phases(plan, {}, {}).empty());
  CHECK(median_phases(plan, {10, 14}, {}).empty());
  plan.ranks[0].operations.pop_back();
  CHECK(median_phases(plan, {10}, {10}).empty());
}

TEST_CASE("the forward ends when its last operation of any rank does") {
  Plan plan;
  plan.ranks.resize(2);
  Timeline timeline;
  for (int r = 0; r < 2; ++r) {
    plan.ranks[static_cast<std::size_t>(r)].operations.resize(2);
    plan.ranks[static_cast<std::size_t>(r)].operations[1].phase = Phase::backward;
    timeline.ranks.push_back({{0, 0, 2.0 + r, 0, Origin::measured}, {0, 3, 9, 0, Origin::measured}});
  }
  CHECK(forward_end_s(plan, timeline) == 3);
  CHECK(time_not_reported_s(plan, timeline) == 0);
  plan.scenario.problem.direction = Direction::backward;
  CHECK(time_not_reported_s(plan, timeline) == 3);
}

}  // namespace cplab
