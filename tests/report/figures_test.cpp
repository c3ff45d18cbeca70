// Derived figures: counted by hand, and against a brute-force count on random timelines.
#include <doctest/doctest.h>

#include <random>
#include <stdexcept>

#include "algorithms/core/build.hpp"
#include "report/figures.hpp"
#include "tests/report/hand_plan.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;

TEST_CASE("figures of the plan made by hand") {
  const Plan plan = hand_plan();
  const std::vector<MemoryPlan> memory = memory_of(plan);
  const Figures figures = derive_figures(plan, hand_timeline(), memory);
  CHECK(figures.time_s == 11);
  REQUIRE(figures.phases.size() == 2);
  CHECK(figures.phases[0].phase == Phase::forward);
  CHECK(figures.phases[0].time_s == 9);  // merge of rank 0
  CHECK(figures.phases[1].time_s == 2);
  REQUIRE(figures.ranks.size() == 2);
  // Rank 0: attend 0-2 and 6-8, merge 8-9, fill 9-10; exchange 1-5, all_reduce 10-11; alone 2-5 and 10-11.
  CHECK(figures.ranks[0].time_s == 11);
  CHECK(figures.ranks[0].compute_s == 6);
  CHECK(figures.ranks[0].communication_s == 5);
  CHECK(figures.ranks[0].exposed_communication_s == 4);
  // Its peer comes at 2, while it computes.
  CHECK(figures.ranks[0].exposed_wait_s == 0);
  CHECK(figures.ranks[0].exposed_transfer_s == 4);
  // Rank 1: attend 0-3 and 5-8, merge 8-8.5, fill 9-10; exchange 2-5, all_reduce 10-11; alone 3-5 and 10-11.
  CHECK(figures.ranks[1].compute_s == 7.5);
  CHECK(figures.ranks[1].communication_s == 4);
  CHECK(figures.ranks[1].exposed_communication_s == 3);
  for (const RankFigures& rank : figures.ranks) {
    CHECK(rank.sent_bytes == 64 + 32);
    CHECK(rank.received_bytes == 64 + 32);
    CHECK(rank.arena_bytes == plan.ranks[0].arena_bytes);
  }
  CHECK(figures.messages == 2);
  CHECK(figures.host_syncs == 2);
  // Busy without waits: measured 2+2+1 + 3+3+1 = 12, merges 1 + 0.5, all_reduce 1 + 1, exchange (4-1) + 3.
  CHECK(figures.origins.measured == doctest::Approx(12 / 21.5).epsilon(1e-15));
  CHECK(figures.origins.interpolated == doctest::Approx(1.5 / 21.5).epsilon(1e-15));
  CHECK(figures.origins.extrapolated == doctest::Approx(2 / 21.5).epsilon(1e-15));
  CHECK(figures.origins.assumed == doctest::Approx(6 / 21.5).epsilon(1e-15));
}

TEST_CASE("peak and fit of the plan made by hand") {
  const Plan plan = hand_plan();
  const std::vector<MemoryPlan> memory = memory_of(plan);
  const Figures figures = derive_figures(plan, hand_timeline(), memory);
  // The second attend has everything but lse_max: q, kv, out, lse, kv_slots, part_out, part_lse.
  CHECK(figures.peak_bytes == 64 + 64 + 64 + 32 + 64 + 64 + 32);
  CHECK(figures.peak_rank == 0);
  REQUIRE(figures.peak_buffers.size() == 7);
  CHECK(figures.peak_buffers[4].name == "kv_slots");
  CHECK(figures.peak_buffers[4].category == Category::working);
  CHECK(figures.peak_buffers[4].bytes == 64);
  std::int64_t sum = 0;
  for (const PeakBuffer& buffer : figures.peak_buffers) sum += buffer.bytes;
  CHECK(sum == figures.peak_bytes);

  const std::int64_t arena = plan.ranks[0].arena_bytes;
  CHECK(fit(figures, arena + 10, 10).fits);
  CHECK(fit(figures, arena + 10, 10).headroom_bytes == 0);
  CHECK_FALSE(fit(figures, arena + 9, 10).fits);
  CHECK(fit(figures, arena + 9, 10).headroom_bytes == -1);
}

TEST_CASE("a communication or a host_sync on a compute lane is no computation") {
  Plan plan = hand_plan();
  for (RankPlan& rank : plan.ranks)
    for (Operation& op : rank.operations) op.lane = {LaneKind::compute, 0};
  Timeline timeline = hand_timeline();
  timeline.ranks[0][6].end_s = 12;
  const Figures figures = derive_figures(plan, timeline, memory_of(plan));
  CHECK(figures.ranks[0].compute_s == 6);
  CHECK(figures.ranks[0].communication_s == 5);
  CHECK(figures.ranks[0].exposed_communication_s == 4);
  CHECK(figures.ranks[0].time_s == 12);
}

// Random times in whole seconds: the figures must equal what counting second by second gives, for lanes in
// order and where the times of a lane are out of order.
TEST_CASE("compute, communication and exposed seconds against counting") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int round = 0; round < 200; ++round) {
    const bool in_order = round % 2 == 0;
    constexpr int horizon = 64;
    Plan plan;
    plan.groups = {{"cp0", {0}}};
    plan.ranks.resize(1);
    Timeline timeline;
    timeline.ranks.resize(1);
    bool busy[horizon] = {}, communicating[horizon] = {};
    int lane_end[4] = {};
    for (int i = 0; i < 40; ++i) {
      const int lane = below(4);
      Operation op;
      op.kind = lane < 2 ? OpKind::attend : OpKind::exchange;
      op.lane = {lane < 2 ? LaneKind::compute : LaneKind::comm, static_cast<std::uint8_t>(lane % 2)};
      const int start = in_order ? std::min(lane_end[lane] + below(3), horizon - 1) : below(horizon);
      const int end = std::min(start + below(6), horizon);
      lane_end[lane] = end;
      for (int t = start; t < end; ++t) (lane < 2 ? busy : communicating)[t] = true;
      plan.ranks[0].operations.push_back(op);
      timeline.ranks[0].push_back(
          {0, static_cast<double>(start), static_cast<double>(end), 0, Origin::measured});
    }
    int compute = 0, communication = 0, exposed = 0;
    for (int t = 0; t < horizon; ++t) {
      compute += busy[t];
      communication += communicating[t];
      exposed += communicating[t] && !busy[t];
    }
    const Figures figures = derive_figures(plan, timeline, std::vector<MemoryPlan>(1));
    CHECK(figures.ranks[0].compute_s == compute);
    CHECK(figures.ranks[0].communication_s == communication);
    CHECK(figures.ranks[0].exposed_communication_s == exposed);
  }
}

TEST_CASE("figures of a built plan") {
  for (const int ranks : {1, 2, 5, 8}) {
    const Plan plan = build_plan(testing::any_scenario(ranks));
    const Figures figures = derive_figures(plan, millisecond_timeline(plan), memory_of(plan));
    CHECK((figures.messages > 0) == (ranks > 1));
    double sent = 0, received = 0;
    for (const RankFigures& rank : figures.ranks) {
      sent += static_cast<double>(rank.sent_bytes);
      received += static_cast<double>(rank.received_bytes);
      CHECK(rank.exposed_communication_s <= rank.communication_s);
      CHECK(rank.compute_s + rank.exposed_communication_s <= rank.time_s + 1e-12);
    }
    CHECK(sent == received);
    CHECK((sent > 0) == (ranks > 1));
    CHECK(figures.phases[0].time_s + figures.phases[1].time_s ==
          doctest::Approx(figures.time_s).epsilon(1e-15));
  }
}

TEST_CASE("a timeline or memory of another plan is refused") {
  const Plan plan = hand_plan();
  Timeline timeline = hand_timeline();
  CHECK_THROWS_AS(derive_figures(plan, timeline, std::vector<MemoryPlan>(1)), std::invalid_argument);
  timeline.ranks[1].pop_back();
  CHECK_THROWS_AS(derive_figures(plan, timeline, memory_of(plan)), std::invalid_argument);
  timeline.ranks.pop_back();
  CHECK_THROWS_AS(derive_figures(plan, timeline, memory_of(plan)), std::invalid_argument);
}
