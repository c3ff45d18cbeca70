// The critical path that the times of a run leave: by hand, and of built plans whose operations start as soon
// as what they wait for is over.
#include "report/measured_path.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "derive/edits.hpp"
#include "tests/chain_seconds.hpp"
#include "tests/hand_plans/hand_plans.hpp"
#include "tests/report/hand_plan.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;

namespace {

constexpr Lane copies{LaneKind::copy, 0};

Plan of_ranks(int ranks) {
  Plan plan = hand::ranks_in_one_group(ranks, "all", DType::bf16);
  for (int r = 0; r < ranks; ++r) hand::Rank(plan, r).buffer(hand::column("bytes", 4));
  return plan;
}

std::uint32_t kernel(Plan& plan, int r, Lane lane, const hand::After& after = {},
                     Phase phase = Phase::forward) {
  hand::Rank rank(plan, r);
  rank.phase(phase);
  return rank.operation(lane, OpKind::fill, {}, {}, after);
}

std::uint32_t message(Plan& plan, int r, int peer, bool sends, const hand::After& after = {}) {
  hand::Rank rank(plan, r);
  const hand::ViewIndex view = rank.view({0});
  return rank.communicate(hand::comm, OpKind::exchange,
                          {sends ? hand::send(view, peer) : hand::receive(view, peer)}, after);
}

Timeline times(std::vector<std::vector<OperationTime>> ranks) {
  Timeline timeline;
  timeline.ranks = std::move(ranks);
  return timeline;
}

void check_step(const ChainStep& step, double begin_s, double end_s, int rank, std::uint32_t operation,
                bool host = false) {
  CHECK(step.begin_s == begin_s);
  CHECK(step.end_s == end_s);
  CHECK(step.rank == rank);
  CHECK(step.operation == operation);
  CHECK(step.host == host);
}

}  // namespace

TEST_CASE(
    "measured path: through edges, lanes, a collective and the peer that came last, gaps are the host's") {
  const MeasuredPath path = measured_path(hand_plan(), hand_timeline(), {});
  REQUIRE(path.steps.size() == 7);
  check_step(path.steps[0], 0, 2, 1, 0, true);  // until rank 1 posts its exchange
  check_step(path.steps[1], 2, 5, 0, 0);        // which then moves
  check_step(path.steps[2], 5, 6, 0, 2, true);
  check_step(path.steps[3], 6, 8, 0, 2);    // attend, after the exchange
  check_step(path.steps[4], 8, 9, 0, 3);    // merge
  check_step(path.steps[5], 9, 10, 0, 4);   // fill
  check_step(path.steps[6], 10, 11, 0, 5);  // all_reduce: nobody came later
}

TEST_CASE("measured path: what its parts use, and when the clocks do not decide") {
  const MeasuredPath path = measured_path(hand_plan(), hand_timeline(), {});
  CHECK(path.by_use.attention == 2);
  CHECK(path.by_use.other_kernels == 2);
  CHECK(path.by_use.communication == 4);
  CHECK(path.by_use.host == 3);
  CHECK(path.time_s() == 11);
  CHECK(testing::seconds_of(path.parts, ChainResource::message, OpKind::exchange, 1, 0) ==
        3);  // rank 1 sends what came last
  CHECK(testing::seconds_of(path.parts, ChainResource::message, OpKind::all_reduce, 0, -1) == 1);
  CHECK(testing::seconds_of(path.parts, ChainResource::gpu, OpKind::attend, 0, -1) == 2);
  CHECK(path.communications == 2);
  CHECK(path.undecided == 0);
  // The exchange's ends began a second apart, the all_reduce's together.
  CHECK(measured_path(hand_plan(), hand_timeline(), {.clock_residual_s = 0.4}).undecided == 1);
  CHECK(measured_path(hand_plan(), hand_timeline(), {.clock_residual_s = 0.6}).undecided == 2);
  const MeasuredPath on_cpu = measured_path(hand_plan(), hand_timeline(), {ChainResource::cpu, false, 0});
  CHECK(testing::seconds_of(on_cpu.parts, ChainResource::cpu, OpKind::attend, 0, -1) == 2);
}

TEST_CASE("measured path: the backward waits for the forward of all ranks where other layers run between") {
  Plan plan = of_ranks(2);
  for (const int r : {0, 1}) {
    kernel(plan, r, hand::compute);
    kernel(plan, r, hand::compute, {}, Phase::backward);
  }
  const Timeline timeline = times({{from_to(0, 4), from_to(5, 6)}, {from_to(0, 2), from_to(5, 9)}});
  const MeasuredPath apart = measured_path(plan, timeline, {.phases_apart = true});
  REQUIRE(apart.steps.size() == 3);
  check_step(apart.steps[0], 0, 4, 0, 0);
  check_step(apart.steps[1], 4, 5, 1, 1, true);
  check_step(apart.steps[2], 5, 9, 1, 1);
  const MeasuredPath together = measured_path(plan, timeline, {});
  REQUIRE(together.steps.size() == 3);
  check_step(together.steps[0], 0, 2, 1, 0);
  check_step(together.steps[1], 2, 5, 1, 1, true);
}

TEST_CASE("measured path: who waits for a start waits for what that start waited for, not for its end") {
  Plan plan = of_ranks(2);
  const auto first = kernel(plan, 0, hand::compute);
  const auto sent = message(plan, 0, 1, true, {first});
  const auto beside = kernel(plan, 0, hand::compute1);
  set_after_started(plan.ranks[0], beside, {sent});
  message(plan, 1, 0, false);
  const MeasuredPath path =
      measured_path(plan, times({{from_to(0, 2), from_to(2.5, 9), from_to(3, 12)}, {from_to(8, 9)}}), {});
  REQUIRE(path.steps.size() == 3);
  check_step(path.steps[0], 0, 2, 0, first);
  check_step(path.steps[1], 2, 3, 0, beside, true);
  check_step(path.steps[2], 3, 12, 0, beside);
}

TEST_CASE("measured path: a host_sync holds up what is issued behind it on any lane") {
  Plan plan = of_ranks(1);
  const auto first = kernel(plan, 0, hand::compute);
  const auto sync = hand::Rank(plan, 0).host_sync(hand::comm, {first});
  const auto behind = kernel(plan, 0, copies);
  const MeasuredPath path = measured_path(plan, times({{from_to(0, 5), from_to(5, 6), from_to(7, 8)}}), {});
  REQUIRE(path.steps.size() == 4);
  check_step(path.steps[0], 0, 5, 0, first);
  check_step(path.steps[1], 5, 6, 0, sync);
  check_step(path.steps[2], 6, 7, 0, behind, true);
  check_step(path.steps[3], 7, 8, 0, behind);
  CHECK(path.by_use.host == 2);
}

TEST_CASE("measured path: a receiver that came after the message was away held nobody up") {
  Plan plan = of_ranks(2);
  const auto sent = message(plan, 0, 1, true);
  const auto after = kernel(plan, 0, hand::compute, {sent});
  message(plan, 1, 0, false);
  const MeasuredPath path =
      measured_path(plan, times({{from_to(0, 1), from_to(1, 10)}, {from_to(3, 4)}}), {});
  REQUIRE(path.steps.size() == 2);
  check_step(path.steps[0], 0, 1, 0, sent);
  check_step(path.steps[1], 1, 10, 0, after);
}

TEST_CASE("measured path: where everything starts as soon as it may, it has no gap and sums to the end") {
  for (const Algorithm& algorithm : algorithms()) {
    CAPTURE(algorithm.name);
    const Plan plan = build_plan(resolve(testing::any_scenario(4, std::string(algorithm.name))));
    const Timeline timeline = millisecond_timeline(plan);
    const MeasuredPath path = measured_path(plan, timeline, {});
    double end_s = 0, t = 0;
    for (const auto& rank : timeline.ranks)
      for (const OperationTime& time : rank) end_s = std::max(end_s, time.end_s);
    for (const ChainStep& step : path.steps) {
      CHECK(step.begin_s == t);
      CHECK_FALSE(step.host);
      t = step.end_s;
    }
    CHECK(t == end_s);
    CHECK(path.by_use.total() == doctest::Approx(end_s));
  }
}
