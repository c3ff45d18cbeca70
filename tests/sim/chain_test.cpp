// The critical chain by rank, link or NIC, and kind, worked out by hand.
#include "report/chain.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/simulate.hpp"
#include "tests/chain_seconds.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

// Rank 0: a kernel of 100 us, then sends 1 MB; rank 1 receives it, then a kernel of 30.
HandPlan relay() {
  HandPlan p(2);
  p.exchange(0, {HandPlan::send(1, mega)}, {p.kernel(0, 0, 100e-6)});
  const auto received = p.exchange(1, {HandPlan::receive(0, mega)}, {p.kernel(1, 0, 20e-6)});
  p.kernel(1, 0, 30e-6, {received});
  return p;
}

void sums_to_its_time(const Simulation& s) {
  double sum = 0;
  for (const ChainPart& part : s.critical_parts.all()) sum += part.seconds;
  CHECK(near(sum, s.time_s));
}

}  // namespace

TEST_CASE("chain: kernels by their ranks, a message by both of its ends, its start-up apart") {
  const Simulation s = run(relay(), hand_machine(2));
  CHECK(near(s.time_s, 170e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::gpu, OpKind::attend, 0, -1), 100e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::startup, OpKind::exchange, 0, 1), 20e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::link, OpKind::exchange, 0, 1), 20e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::gpu, OpKind::attend, 1, -1), 30e-6));
  CHECK(s.critical_parts.count == 4);
  CHECK(s.critical_parts.largest[0].seconds == doctest::Approx(100e-6));
  sums_to_its_time(s);
}

TEST_CASE(
    "chain: its steps follow each other from 0 to the end, each of the operation that held the rest up") {
  const Simulation s = run(relay(), hand_machine(2));
  // Rank 0's kernel, its exchange (40 with the start-up, of which rank 1's end is the last), rank 1's second
  // kernel.
  std::vector<ChainStep> steps = s.critical_steps;
  std::erase_if(steps, [](const ChainStep& step) { return step.host; });
  REQUIRE(steps.size() >= 3);
  CHECK(steps.front().rank == 0);
  CHECK(near(steps.front().end_s, 100e-6));
  CHECK(steps.back().rank == 1);
  CHECK(near(steps.back().begin_s, 140e-6));
  CHECK(near(steps.back().end_s, 170e-6));
  double t = 0, host = 0;
  for (const ChainStep& step : s.critical_steps) {
    CHECK(step.begin_s == t);
    CHECK(step.end_s > step.begin_s);
    t = step.end_s;
    host += step.host ? step.end_s - step.begin_s : 0;
    const OperationTime& time = s.timeline.ranks[static_cast<std::size_t>(step.rank)][step.operation];
    if (!step.host) CHECK((time.start_s <= step.begin_s && step.end_s <= time.end_s));
  }
  CHECK(t == s.time_s);
  CHECK(near(host, s.critical_use.host));

  SimulateOptions beside;
  beside.engine = FlowEngineChoice::simgrid;
  const Simulation other = run(relay(), hand_machine(2), beside);
  REQUIRE(other.critical_steps.size() == s.critical_steps.size());
  for (std::size_t i = 0; i < s.critical_steps.size(); ++i)
    CHECK(near(other.critical_steps[i].end_s, s.critical_steps[i].end_s));
}

TEST_CASE("chain: over the network it is the NIC that a message takes") {
  const Simulation s = run(relay(), hand_machine(1));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::nic, OpKind::exchange, 0, 1), 200e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::startup, OpKind::exchange, 0, 1), 30e-6));
  CHECK(testing::seconds_of(s.critical_parts, ChainResource::link, OpKind::exchange, 0, 1) == 0);
  sums_to_its_time(s);
}

TEST_CASE("chain: what a part of a resource says is gained where that one is faster") {
  // The NIC's 200 us at twice its speed are 100.
  Hardware faster = hand_machine(1);
  for (MessageTable& table : faster.messages) table.link_bytes_s = table.path == Path::intra ? 100e9 : 10e9;
  faster.network.nic_bytes_s = 20e9;
  const Simulation before = run(relay(), hand_machine(1)), after = run(relay(), faster);
  CHECK(near(before.time_s - after.time_s,
             testing::seconds_of(before.critical_parts, ChainResource::nic, OpKind::exchange, 0, 1) / 2));
}

TEST_CASE("chain: a collective is of the rank that came last, by the widest path of its group") {
  Hardware hardware = hand_machine(2);
  MessageTable table = hardware.messages[0];
  table.kind = OpKind::reduce_scatter;
  table.points = {{1e6, 40e-6}, {2e6, 60e-6}};
  hardware.messages.push_back(table);
  HandPlan p(2);
  p.collective(0, OpKind::reduce_scatter, mega, {p.kernel(0, 0, 10e-6)});
  p.collective(1, OpKind::reduce_scatter, mega, {p.kernel(1, 0, 50e-6)});
  // Rank 1 comes last, after 50; of the 40 behind that 30 are no bytes at 100 GB/s.
  const Simulation s = run(p, hardware);
  CHECK(near(s.time_s, 90e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::gpu, OpKind::attend, 1, -1), 50e-6));
  double startup = 0, link = 0;
  for (const int rank : {0, 1}) {
    startup +=
        testing::seconds_of(s.critical_parts, ChainResource::startup, OpKind::reduce_scatter, rank, -1);
    link += testing::seconds_of(s.critical_parts, ChainResource::link, OpKind::reduce_scatter, rank, -1);
  }
  CHECK(startup == doctest::Approx(30e-6).epsilon(1e-6));  // kept in single precision
  CHECK(link == doctest::Approx(10e-6).epsilon(1e-6));
  sums_to_its_time(s);
}

TEST_CASE("chain: a launch-bound one is the host's") {
  Hardware hardware = hand_machine(1);
  hardware.host.kernel_launch_s = 4e-6;
  HandPlan p(1);
  for (int i = 0; i < 10; ++i) p.kernel(0, 0, 1e-6);
  const Simulation s = run(p, hardware);
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::host, OpKind::host_sync, 0, -1), 40e-6));
  CHECK(near(testing::seconds_of(s.critical_parts, ChainResource::gpu, OpKind::attend, 0, -1), 1e-6));
  sums_to_its_time(s);
}

TEST_CASE("chain: in words, parts of one kind and resource together") {
  ChainParts parts;
  const auto add = [&](ChainResource resource, OpKind kind, int rank, int peer, double seconds) {
    parts.largest.at(parts.count++) = {resource, kind, rank, peer, seconds};
  };
  add(ChainResource::gpu, OpKind::attend_backward, 3, -1, 0.61);
  add(ChainResource::nic, OpKind::exchange, 3, 4, 0.2);
  add(ChainResource::link, OpKind::exchange, 4, 5, 0.08);
  add(ChainResource::link, OpKind::exchange, 5, 6, 0.04);
  add(ChainResource::host, OpKind::host_sync, 3, -1, 0.06);
  add(ChainResource::startup, OpKind::exchange, 3, 4, 0.009);
  CHECK(chain_text(parts, 1) ==
        "attend_backward on rank 3 61.0 %, exchange rank 3 -> 4 over NIC 20.0 %, exchange 2 hops, most rank "
        "4 -> 5 over link 12.0 %, launches on rank 3 6.0 %");
  CHECK(chain_text({}, 1) == "nothing of a percent");
}

}  // namespace cplab
