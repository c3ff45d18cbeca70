// Pins the settings of the flow engine on closed forms. With SimGrid's default model (LV08) or cross-traffic
// these cases are off by percents to factors; the TCP window has no effect as long as link latencies are 0,
// so that one is read back.
#include "sim/flow_engine.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <vector>

#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;

// Times of ended flows and fired timers by token, filled in by a child process (one engine per process).
using Ends = std::array<double, 16>;

struct Flow {
  double at_us;
  int from, port, to;
  std::uint64_t bytes;
  double cap_bytes_us;
};

Ends run_flows(const Fabric& fabric, const std::vector<Flow>& flows) {
  void* memory = mmap(nullptr, sizeof(Ends), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* shared = static_cast<Ends*>(memory);
  shared->fill(-1);
  std::fflush(nullptr);  // else the child may write what is buffered once more
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    FlowEngine* engine = nullptr;
    FlowEngine built(
        fabric,
        [&](FlowEngine::Token i) {
          const Flow& f = flows[i];
          const int level = fabric.level(f.from, f.to);
          engine->set_cap(f.from, f.port, level, f.cap_bytes_us);
          engine->flow(f.from, f.port, f.to, level, f.bytes, i);
        },
        [&](FlowEngine::Token i) { (*shared)[i] = engine->now_us(); });
    engine = &built;
    const FlowEngine::Settings settings = built.settings();
    (*shared)[13] = settings.network_model == "CM02";
    (*shared)[14] = settings.cross_traffic;
    (*shared)[15] = settings.tcp_gamma;
    for (std::size_t i = 0; i < flows.size(); ++i) engine->timer(flows[i].at_us, i);
    engine->run();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  const Ends result = *shared;
  munmap(memory, sizeof(Ends));
  return result;
}

constexpr double open_cap = 1e9;  // bytes/us, above every link here

Fabric one_node(int ranks) {
  Fabric fabric;
  fabric.ranks = fabric.ranks_per_node = ranks;
  fabric.link_bytes_us = 450e3;
  fabric.ports = 2;
  return fabric;
}

}  // namespace

TEST_CASE("the settings that closed forms need are those that SimGrid runs with") {
  const Ends ends = run_flows(one_node(2), {{0, 0, 0, 1, 1000, open_cap}});
  CHECK(ends[13] == 1);  // CM02
  CHECK(ends[14] == 0);  // no cross-traffic
  CHECK(ends[15] == 0);  // no TCP window
}

TEST_CASE("one flow takes bytes over bandwidth: no latency, no factor") {
  // LV08 would scale bandwidth by 0.97.
  CHECK(near(run_flows(one_node(2), {{0, 0, 0, 1, 1'000'000, open_cap}})[0], 1e6 / 450e3));
  CHECK(near(run_flows(one_node(2), {{0, 0, 0, 1, 64'000'000'000, open_cap}})[0], 64e9 / 450e3));
  CHECK(near(run_flows(one_node(2), {{1e6, 0, 0, 1, 1'000'000, open_cap}})[0], 1e6 + 1e6 / 450e3));
}

TEST_CASE("full duplex: opposite flows do not see each other") {
  const Ends ends =
      run_flows(one_node(2), {{0, 0, 0, 1, 1'000'000, open_cap}, {0, 1, 0, 0, 1'000'000, open_cap}});
  CHECK(near(ends[0], 1e6 / 450e3));
  CHECK(near(ends[1], 1e6 / 450e3));
}

TEST_CASE("two flows on one link share it equally, and the longer one speeds up when the shorter ends") {
  // 0 -> 2 carries 1 MB, 1 -> 2 carries 2 MB into the same link down: the first ends after 2 MB in all, the
  // second after 3 MB.
  const Ends ends =
      run_flows(one_node(3), {{0, 0, 0, 2, 1'000'000, open_cap}, {0, 1, 0, 2, 2'000'000, open_cap}});
  CHECK(near(ends[0], 2e6 / 450e3));
  CHECK(near(ends[1], 3e6 / 450e3));
}

TEST_CASE("a cap holds for its port alone") {
  // Two flows out of rank 0 on two ports: one capped at 100e3, the other takes the remaining 350e3.
  const Ends ends =
      run_flows(one_node(3), {{0, 0, 0, 1, 1'000'000, 100e3}, {0, 0, 1, 2, 1'000'000, open_cap}});
  CHECK(near(ends[0], 10));
  CHECK(near(ends[1], 1e6 / 350e3));
}

TEST_CASE("a cap is set anew for the next flow of a port") {
  const Ends ends =
      run_flows(one_node(2), {{0, 0, 0, 1, 1'000'000, 157e3}, {100, 0, 0, 1, 1'000'000, 302e3}});
  CHECK(near(ends[0], 1e6 / 157e3));
  CHECK(near(ends[1], 100 + 1e6 / 302e3));
}

TEST_CASE("nodes: inside over the crossbar, between over the NICs") {
  Fabric fabric = one_node(4);
  fabric.ranks_per_node = 2;
  fabric.nic_bytes_us = 50e3;
  CHECK(fabric.level(0, 1) == 0);
  CHECK(fabric.level(1, 2) == 1);
  // One flow of each kind out of rank 1: different links.
  Ends ends = run_flows(fabric, {{0, 1, 0, 0, 1'000'000, open_cap}, {0, 1, 1, 2, 1'000'000, open_cap}});
  CHECK(near(ends[0], 1e6 / 450e3));
  CHECK(near(ends[1], 20));
  // Two GPUs on one NIC halve it.
  fabric.ranks_per_nic = 2;
  ends = run_flows(fabric, {{0, 0, 0, 2, 1'000'000, open_cap}, {0, 1, 0, 3, 1'000'000, open_cap}});
  CHECK(near(ends[0], 40));
  CHECK(near(ends[1], 40));
}

TEST_CASE("fat tree: uplinks are shared by what leaves the switch, and by nothing else") {
  Fabric fabric;
  fabric.ranks = 8;
  fabric.ranks_per_node = 1;
  fabric.nic_bytes_us = 50e3;
  fabric.ports = 1;
  fabric.switches = {{[](int rank) { return rank / 2; }, 60e3}, {[](int rank) { return rank / 4; }, 40e3}};
  CHECK(fabric.level(0, 1) == 1);
  CHECK(fabric.level(0, 2) == 2);
  CHECK(fabric.level(3, 4) == 3);
  // Out of the first switch: 60e3 for two flows, 30e3 each; beneath the fourth: the NICs alone.
  Ends ends = run_flows(
      fabric,
      {{0, 0, 0, 2, 600'000, open_cap}, {0, 1, 0, 3, 600'000, open_cap}, {0, 6, 0, 7, 600'000, open_cap}});
  CHECK(near(ends[0], 20));
  CHECK(near(ends[1], 20));
  CHECK(near(ends[2], 12));
  // Out of the first four ranks: 40e3 for two flows that leave by different lower switches.
  ends = run_flows(fabric, {{0, 0, 0, 4, 600'000, open_cap}, {0, 2, 0, 6, 600'000, open_cap}});
  CHECK(near(ends[0], 30));
  CHECK(near(ends[1], 30));
}

TEST_CASE("close events stay apart: the precision is far below a nanosecond") {
  // 0.4 ns apart, which the default precision would merge if time were in seconds.
  const Ends ends =
      run_flows(one_node(4), {{3.0004, 0, 0, 1, 450'000, open_cap}, {3.0008, 2, 0, 3, 450'000, open_cap}});
  CHECK(near(ends[0], 4.0004));
  CHECK(near(ends[1], 4.0008));
  CHECK(ends[1] - ends[0] == doctest::Approx(0.0004).epsilon(1e-9));
}

}  // namespace cplab
