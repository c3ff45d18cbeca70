// The host lane: issue costs, launch latency, run-ahead, host_sync, CUDA graphs. Times worked out by hand, in
// microseconds.
#include <doctest/doctest.h>

#include "tests/sim/hand_plan.hpp"

namespace cplab {

using namespace sim_test;

TEST_CASE("launch-bound: short kernels come at the pace of the host") {
  HandPlan p(1);
  for (int i = 0; i < 10; ++i) p.kernel(0, 0, 1e-6);
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 5e-6;
  hardware.host.launch_latency_s = 3e-6;
  const Simulation s = run(p, hardware);
  // Kernel i is issued at 5 (i + 1), starts 3 later, takes 1.
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(near(us(s.timeline.ranks[0][i].issue_s), 5.0 * static_cast<double>(i + 1)));
    CHECK(near(us(s.timeline.ranks[0][i].end_s), 5.0 * static_cast<double>(i + 1) + 4));
  }
  CHECK(near(us(s.time_s), 54));
  CHECK(near(us(s.busy.total()), 10));
}

TEST_CASE("device-bound: the host runs ahead and its cost shows once") {
  HandPlan p(1);
  for (int i = 0; i < 10; ++i) p.kernel(0, 0, 20e-6);
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 5e-6;
  hardware.host.launch_latency_s = 3e-6;
  CHECK(near(us(run(p, hardware).time_s), 8 + 200));
}

TEST_CASE("run-ahead: no more than so many operations are issued and not complete") {
  HandPlan p(1);
  for (int i = 0; i < 4; ++i) p.kernel(0, 0, 10e-6);
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 1e-6;
  SimulateOptions options;
  options.run_ahead = 2;
  const Simulation s = run(p, hardware, options);
  // Kernels run from 1 to 11, 21, 31, 41; the third may be issued when the first is complete.
  const double issued[] = {1, 2, 12, 22};
  for (std::size_t i = 0; i < 4; ++i) CHECK(near(us(s.timeline.ranks[0][i].issue_s), issued[i]));
  CHECK(near(us(s.time_s), 41));
}

TEST_CASE("host_sync: the host waits for the lane and starts again") {
  HandPlan p(1);
  p.kernel(0, 0, 10e-6);
  p.host_sync(0, 0);
  p.kernel(0, 0, 10e-6);
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 1e-6;
  hardware.host.sync_s = 2e-6;
  const Simulation s = run(p, hardware);
  // Kernel from 1 to 11, seen at 13, the next one issued at 14, ends at 24.
  CHECK(near(us(s.timeline.ranks[0][1].end_s), 13));
  CHECK(near(us(s.timeline.ranks[0][2].issue_s), 14));
  CHECK(near(us(s.time_s), 24));
  CHECK(s.host_syncs == 1);
}

TEST_CASE(
    "a benchmark's bracket: hosts wait, meet in a barrier of the world, wait again, and time what follows") {
  // Two replicas of two ranks. A barrier of all four is 2 levels of 20 us; kernels of 10 to 40 us come before
  // it.
  HandPlan p(4);
  p.plan.groups = {{"cp 0", {0, 1}}, {"cp 1", {2, 3}}, {"world", {0, 1, 2, 3}}};
  for (int r = 0; r < 4; ++r) {
    RankPlan& rank = p.plan.ranks[static_cast<std::size_t>(r)];
    rank.replica = r / 2;
    p.kernel(r, 0, 10e-6 * (r + 1));
    p.host_sync(r, 0);
    rank.operations[p.collective(r, OpKind::barrier, 0)].group = 2;
    hand::Rank(p.plan, r).host_sync(hand::comm);
    p.kernel(r, 0, 5e-6);
  }
  Hardware hardware = hand_machine(4);
  hardware.host.kernel_launch_s = 1e-6;
  hardware.host.communication_launch_s = 4e-6;
  hardware.host.sync_s = 2e-6;
  const Simulation s = run(p, hardware);
  for (std::size_t r = 0; r < 4; ++r) {
    const auto& times = s.timeline.ranks[r];
    // The last kernel ends at 41, seen at 43; its barrier is issued at 47 and completes the match: all end
    // at 87.
    CHECK(near(us(times[2].end_s), 87));
    CHECK(near(us(times[3].end_s), 89));
    CHECK(near(us(times[4].start_s), 90));
    CHECK(near(us(times[2].wait_s), 47 - (10.0 * static_cast<double>(r + 1) + 7)));
  }
  CHECK(s.host_syncs == 8);
}

TEST_CASE("an operation after one on another lane pays the dependency latency, on its own lane none") {
  HandPlan p(1);
  const auto a = p.kernel(0, 0, 10e-6);
  p.kernel(0, 0, 10e-6);
  p.kernel(0, 1, 30e-6, {a}, 1, 1);
  Hardware hardware = hand_machine(1);
  hardware.host.dependency_s = 1.5e-6;
  const Simulation s = run(p, hardware);
  CHECK(near(us(s.timeline.ranks[0][1].start_s), 10));
  // Ready at 11.5, but the second kernel holds all multiprocessors until 20.
  CHECK(near(us(s.timeline.ranks[0][2].start_s), 20));
  CHECK(near(us(s.timeline.ranks[0][2].end_s), 50));
}

TEST_CASE("CUDA graph: one launch, then nodes at their own small cost") {
  HandPlan p(1);
  const auto a = p.kernel(0, 0, 1e-6);
  p.kernel(0, 1, 1e-6, {a});
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 5e-6;
  hardware.host.launch_latency_s = 3e-6;
  hardware.host.dependency_s = 2e-6;
  hardware.host.graph_launch_s = 7e-6;
  hardware.host.graph_node_s = 0.5e-6;
  SimulateOptions options;
  options.cuda_graph = true;
  // 7 + 3 until the first starts, 1, 0.5, 1.
  CHECK(near(us(run(p, hardware, options).time_s), 12.5));
  // Launched one by one: 5 + 3, 1, then the second is issued at 10 and may start at 13.
  CHECK(near(us(run(p, hardware).time_s), 14));
}

TEST_CASE("communication and copies have issue costs of their own") {
  Hardware hardware = hand_machine(2);
  hardware.host.communication_launch_s = 6e-6;
  hardware.host.copy_launch_s = 2e-6;
  for (const Transport transport : {Transport::nccl, Transport::copy}) {
    HandPlan p(2);
    p.exchange(0, {HandPlan::send(1, 1'000'000)}, {}, transport);
    p.exchange(1, {HandPlan::receive(0, 1'000'000)}, {}, transport);
    CHECK(near(us(run(p, hardware).time_s), transport == Transport::nccl ? 6 + 40 : 2 + 15));
  }
}

}  // namespace cplab
