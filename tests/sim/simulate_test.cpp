// The simulator as a whole: the same bits run after run, origins and bands, stalls, errors, many simulations
// in one process.
#include "sim/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

// A ring of uneven kernels, so that almost all event times differ.
HandPlan uneven_ring(int ranks, int steps) {
  HandPlan p(ranks);
  for (int r = 0; r < ranks; ++r) {
    std::vector<std::uint32_t> after;
    for (int step = 0; step < steps; ++step) {
      const int right = (r + 1) % ranks, left = (r + ranks - 1) % ranks;
      const auto next = p.exchange(r, {HandPlan::send(right, mega), HandPlan::receive(left, mega)}, after);
      const auto kernel = p.kernel(r, step % 2, (30 + (r * 7 + step * 13) % 31) * 1e-6, after, 5, 37);
      after = {next, kernel};
    }
  }
  return p;
}

Hardware slow_host(int gpus) {
  Hardware hardware = hand_machine(gpus);
  hardware.host.kernel_launch_s = 4e-6;
  hardware.host.communication_launch_s = 6e-6;
  hardware.host.launch_latency_s = 3e-6;
  hardware.host.dependency_s = 1.5e-6;
  hardware.host.provenance.origin = Origin::assumed;
  return hardware;
}

bool same_bits(const Timeline& a, const Timeline& b) {
  if (a.ranks.size() != b.ranks.size()) return false;
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    if (a.ranks[r].size() != b.ranks[r].size()) return false;
    for (std::size_t i = 0; i < a.ranks[r].size(); ++i) {
      const OperationTime &x = a.ranks[r][i], &y = b.ranks[r][i];
      if (std::memcmp(&x.issue_s, &y.issue_s, sizeof x.issue_s) != 0 || x.origin != y.origin) return false;
      if (std::memcmp(&x.start_s, &y.start_s, sizeof x.start_s) != 0) return false;
      if (std::memcmp(&x.end_s, &y.end_s, sizeof x.end_s) != 0) return false;
      if (std::memcmp(&x.wait_s, &y.wait_s, sizeof x.wait_s) != 0) return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("a kernel of several origins counts under each by its time, and is called by that of most of it") {
  HandPlan p(1);
  p.kernel(0, 0, 100e-6);
  const auto cost = [](const Plan&, const CallConverter&, const Operation&) {
    KernelCost both;
    both.seconds = 100e-6;
    both.origin = Origin::measured;
    both.parts.add(Origin::measured, 90e-6);
    both.parts.add(Origin::assumed, 10e-6);
    return both;
  };
  const Simulation s = simulate(p.plan, hand_machine(1), {}, cost);
  CHECK(s.timeline.ranks[0][0].origin == Origin::measured);
  for (const OriginSeconds& sum : {s.busy, s.critical}) {  // shares are floats: 1e-6
    CHECK(us(sum.of(Origin::measured)) == doctest::Approx(90).epsilon(1e-6));
    CHECK(us(sum.of(Origin::assumed)) == doctest::Approx(10).epsilon(1e-6));
  }
  const double low = 90 * band(Origin::measured).low + 10 * band(Origin::assumed).low;
  CHECK(us(s.low_s) == doctest::Approx(low).epsilon(1e-6));
}

TEST_CASE("the same arguments give the same bits, whatever was simulated in between") {
  const HandPlan p = uneven_ring(12, 12);
  const Hardware hardware = slow_host(4);
  const Simulation first = simulate(p.plan, hardware, {}, given_cost(hardware));
  const HandPlan other = uneven_ring(3, 2);
  const Hardware other_machine = hand_machine(3);
  for (int i = 0; i < 5; ++i) {
    simulate(other.plan, other_machine, {}, given_cost(other_machine));
    const Simulation again = simulate(p.plan, hardware, {}, given_cost(hardware));
    CHECK(same_bits(first.timeline, again.timeline));
    CHECK(first.low_s == again.low_s);
  }
}

TEST_CASE("every operation happens, in order, and the plan's edges hold") {
  const HandPlan p = uneven_ring(12, 12);
  const Hardware hardware = slow_host(4);
  const Simulation s = simulate(p.plan, hardware, {}, given_cost(hardware));
  CHECK(s.timeline.predicted);
  for (std::size_t r = 0; r < 12; ++r) {
    const RankPlan& rank = p.plan.ranks[r];
    const auto& times = s.timeline.ranks[r];
    REQUIRE(times.size() == rank.operations.size());
    for (std::size_t i = 0; i < times.size(); ++i) {
      CHECK(times[i].issue_s < times[i].start_s);
      CHECK(times[i].start_s < times[i].end_s);
      CHECK(times[i].wait_s >= 0);
      CHECK(times[i].wait_s < times[i].end_s - times[i].start_s);
      if (i > 0) CHECK(times[i].issue_s > times[i - 1].issue_s);
      for (const std::uint32_t before : rank.after(rank.operations[i]))
        CHECK(times[before].end_s <= times[i].start_s);
    }
  }
}

TEST_CASE("the critical path sums to the time, and the band holds it") {
  const HandPlan p = uneven_ring(12, 12);
  const Hardware hardware = slow_host(4);
  const Simulation s = simulate(p.plan, hardware, {}, given_cost(hardware));
  CHECK(near(s.critical.total(), s.time_s));
  CHECK(near(s.critical_use.total(), s.time_s));
  CHECK(s.low_s < s.time_s);
  CHECK(s.high_s > s.time_s);
  CHECK(s.critical.of(Origin::assumed) > 0);  // the host
  CHECK(s.busy.of(Origin::assumed) == 0);
}

TEST_CASE("the critical path of a chain over two ranks, by hand") {
  // Rank 0: kernel of 100, sends 1 MB (40); rank 1: kernel of 20, receives, kernel of 30. 170 in all, of
  // which the exchange, over a group that was not measured, is extrapolated.
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)}, {p.kernel(0, 0, 100e-6)});
  const auto received = p.exchange(1, {HandPlan::receive(0, mega)}, {p.kernel(1, 0, 20e-6)});
  p.kernel(1, 0, 30e-6, {received});
  const Hardware hardware = hand_machine(8);
  const Simulation s = simulate(p.plan, hardware, {}, given_cost(hardware));
  CHECK(near(s.time_s, 170e-6));
  CHECK(near(s.critical.of(Origin::measured), 130e-6));
  CHECK(near(s.critical.of(Origin::extrapolated), 40e-6));
  // Rank 1 waits 80 for rank 0: that is rank 0's kernel, not communication.
  CHECK(near(s.critical_use.attention, 130e-6));
  CHECK(near(s.critical_use.communication, 40e-6));
  CHECK(s.critical_use.other_kernels + s.critical_use.host == 0);
  CHECK(near(s.low_s, 130e-6 * band(Origin::measured).low + 40e-6 * band(Origin::extrapolated).low));
  CHECK(near(s.high_s, 130e-6 * band(Origin::measured).high + 40e-6 * band(Origin::extrapolated).high));
}

TEST_CASE("the critical path of a launch-bound chain is the host's") {
  HandPlan p(1);
  for (int i = 0; i < 10; ++i) p.kernel(0, 0, 1e-6);
  const Hardware hardware = slow_host(1);  // the last starts at 43
  const Simulation s = simulate(p.plan, hardware, {}, given_cost(hardware));
  CHECK(near(s.critical.of(Origin::assumed), 43e-6));
  CHECK(near(s.critical.of(Origin::measured), 1e-6));
  CHECK(near(s.critical_use.host, 43e-6));
}

TEST_CASE("a plan that cannot go on is reported with the operation") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::receive(1, mega)});
  p.kernel(1, 0, 1e-6);
  const Hardware hardware = hand_machine(2);
  try {
    simulate(p.plan, hardware, {}, given_cost(hardware));
    FAIL("no exception");
  } catch (const StalledError& error) {
    CHECK(std::string(error.what()).find("rank 0") != std::string::npos);
    CHECK(std::string(error.what()).find("exchange") != std::string::npos);
  }
}

TEST_CASE("errors of the hardware and of the cost function come through") {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)}, {}, Transport::copy);
  p.exchange(1, {HandPlan::receive(0, mega)}, {}, Transport::copy);
  const Hardware apart = hand_machine(1);  // copy engines do not reach over the network
  try {
    simulate(p.plan, apart, {}, given_cost(apart));
    FAIL("no exception");
  } catch (const HardwareError& error) {
    CHECK(error.table == "message");
    CHECK(error.key == "kind=exchange transport=copy path=inter");
  }
  HandPlan kernels(1);
  kernels.kernel(0, 0, 1e-6);
  sim_test::give_operands(kernels.plan.ranks[0], kernels.plan.ranks[0].operations[0], 1, 64);
  kernels.plan.ranks[0].segments.push_back({0, 128, 0, 128, 0, -1, -1});
  kernels.plan.ranks[0].operations[0].segments = {0, 1};
  CHECK_THROWS_AS(simulate(kernels.plan, apart), HardwareError);  // no attend table
  const KernelCostFunction broken = [](const Plan&, const CallConverter&, const Operation&) -> KernelCost {
    throw std::runtime_error("no idea");
  };
  CHECK_THROWS_WITH(simulate(kernels.plan, apart, {}, broken), "no idea");
}

TEST_CASE("more ranks than the machine serves") {
  HandPlan p(5);
  for (int r = 0; r < 5; ++r) p.kernel(r, 0, 1e-6);
  Hardware hardware = hand_machine(2);
  CHECK(near(simulate(p.plan, hardware, {}, given_cost(hardware)).time_s, 1e-6));
  hardware.network.max_nodes = 2;
  CHECK_THROWS_AS(simulate(p.plan, hardware, {}, given_cost(hardware)), HardwareError);
  hardware.network.fabric = "none";
  hardware.network.max_nodes = 0;
  hardware.messages.resize(2);
  CHECK_THROWS_AS(simulate(p.plan, hardware, {}, given_cost(hardware)), HardwareError);
}

TEST_CASE("an empty plan takes no time") {
  HandPlan p(2);
  const Hardware hardware = hand_machine(2);
  CHECK(simulate(p.plan, hardware, {}, given_cost(hardware)).time_s == 0);
}

TEST_CASE("simulations in two threads are those of one thread") {
  const HandPlan one = uneven_ring(8, 12), other = uneven_ring(6, 20);
  const Hardware hardware = slow_host(8);
  const Simulation first = simulate(one.plan, hardware, {}, given_cost(hardware)),
                   second = simulate(other.plan, hardware, {}, given_cost(hardware));
  for (int n = 0; n < 5; ++n) {
    Simulation beside;
    std::thread thread([&] { beside = simulate(other.plan, hardware, {}, given_cost(hardware)); });
    const Simulation here = simulate(one.plan, hardware, {}, given_cost(hardware));
    thread.join();
    CHECK(same_bits(here.timeline, first.timeline));
    CHECK(same_bits(beside.timeline, second.timeline));
  }
}

TEST_CASE("both flow engines say the same of a ring of uneven kernels, and so do their sums") {
  const HandPlan p = uneven_ring(8, 12);
  const Hardware hardware = slow_host(8);
  SimulateOptions options;
  options.engine = FlowEngineChoice::simgrid;
  const Simulation reference = simulate(p.plan, hardware, options, given_cost(hardware));
  options.engine = FlowEngineChoice::native;
  const Simulation native = simulate(p.plan, hardware, options, given_cost(hardware));
  CHECK(near(native.time_s, reference.time_s));
  CHECK(near(native.low_s, reference.low_s));
  CHECK(near(native.high_s, reference.high_s));
  CHECK(near(native.critical_use.communication, reference.critical_use.communication));
  for (std::size_t r = 0; r < p.plan.ranks.size(); ++r) {
    for (std::size_t i = 0; i < native.timeline.ranks[r].size(); ++i) {
      CHECK(near(native.timeline.ranks[r][i].start_s, reference.timeline.ranks[r][i].start_s));
      CHECK(near(native.timeline.ranks[r][i].end_s, reference.timeline.ranks[r][i].end_s));
    }
  }
}

TEST_CASE("by either flow engine progress grows and ends with all operations") {
  const HandPlan p = uneven_ring(8, 200);  // 3200 operations
  const Hardware hardware = slow_host(8);
  for (const FlowEngineChoice engine : {FlowEngineChoice::native, FlowEngineChoice::simgrid}) {
    std::vector<std::int64_t> told;
    SimulateOptions options;
    options.engine = engine;
    options.progress = [&](std::int64_t done, std::int64_t all) {
      CHECK(all == 3200);
      told.push_back(done);
    };
    (void)simulate(p.plan, hardware, options, given_cost(hardware));
    REQUIRE_FALSE(told.empty());
    CHECK(std::is_sorted(told.begin(), told.end()));
    CHECK(told.back() == 3200);
  }
}

}  // namespace cplab
