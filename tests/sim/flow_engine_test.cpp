// Both flow engines on closed forms, and against each other on drawn traffic. With SimGrid's default model
// (LV08) or cross-traffic the closed forms are off by percents to factors; the TCP window has no effect as
// long as link latencies are 0, so that one is read back.
#include "sim/flow_engine.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "sim/native_flows.hpp"
#include "sim/simgrid_flows.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;

struct Flow {
  double at_us;
  int from, port, to;
  std::uint64_t bytes;
  double cap_bytes_us;
};

// When each flow ends.
template <class Make>
std::vector<double> run_on(const Make& make, const Fabric& fabric, const std::vector<Flow>& flows) {
  std::vector<double> ends(flows.size(), -1);
  std::unique_ptr<FlowEngine> engine;
  engine = make(
      fabric,
      [&](FlowEngine::Token i) {
        const Flow& f = flows[i];
        const int level = fabric.level(f.from, f.to);
        engine->set_cap(f.from, f.port, level, f.cap_bytes_us);
        engine->flow(f.from, f.port, f.to, level, f.bytes, i);
      },
      [&](FlowEngine::Token i) { ends[i] = engine->now_us(); });
  for (std::size_t i = 0; i < flows.size(); ++i) engine->timer(flows[i].at_us, i);
  engine->run();
  return ends;
}

// What `make` returns, from a child process: SimGrid has one engine per process.
std::vector<double> in_child(std::size_t size, const std::function<std::vector<double>()>& make) {
  const std::size_t bytes = size * sizeof(double);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  auto* shared = static_cast<double*>(memory);
  std::fflush(nullptr);  // else the child may write what is buffered once more
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const std::vector<double> made = make();
    std::copy(made.begin(), made.end(), shared);
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  const std::vector<double> result(shared, shared + size);
  munmap(memory, bytes);
  return result;
}

std::unique_ptr<FlowEngine> make_native(const Fabric& fabric, FlowEngine::Handler on_timer,
                                        FlowEngine::Handler on_flow_end) {
  return std::make_unique<NativeFlows>(fabric, std::move(on_timer), std::move(on_flow_end));
}

// By both engines, which have to agree.
std::vector<double> run_flows(const Fabric& fabric, const std::vector<Flow>& flows) {
  load_simgrid();  // once for all child processes
  const std::vector<double> reference =
      in_child(flows.size(), [&] { return run_on(make_simgrid_flows, fabric, flows); });
  const std::vector<double> native = run_on(make_native, fabric, flows);
  for (std::size_t i = 0; i < flows.size(); ++i) {
    CAPTURE(i);
    CHECK(near(native[i], reference[i]));
  }
  return native;
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
  const std::vector<double> told = in_child(3, [] {
    const auto engine = make_simgrid_flows(
        one_node(2), [](FlowEngine::Token) {}, [](FlowEngine::Token) {});
    const SimGridSettings settings = simgrid_settings();
    return std::vector<double>{double(settings.network_model == "CM02"), double(settings.cross_traffic),
                               settings.tcp_gamma};
  });
  CHECK(told[0] == 1);  // CM02
  CHECK(told[1] == 0);  // no cross-traffic
  CHECK(told[2] == 0);  // no TCP window
}

TEST_CASE("one flow takes bytes over bandwidth: no latency, no factor") {
  // LV08 would scale bandwidth by 0.97.
  CHECK(near(run_flows(one_node(2), {{0, 0, 0, 1, 1'000'000, open_cap}})[0], 1e6 / 450e3));
  CHECK(near(run_flows(one_node(2), {{0, 0, 0, 1, 64'000'000'000, open_cap}})[0], 64e9 / 450e3));
  CHECK(near(run_flows(one_node(2), {{1e6, 0, 0, 1, 1'000'000, open_cap}})[0], 1e6 + 1e6 / 450e3));
}

TEST_CASE("full duplex: opposite flows do not see each other") {
  const std::vector<double> ends =
      run_flows(one_node(2), {{0, 0, 0, 1, 1'000'000, open_cap}, {0, 1, 0, 0, 1'000'000, open_cap}});
  CHECK(near(ends[0], 1e6 / 450e3));
  CHECK(near(ends[1], 1e6 / 450e3));
}

TEST_CASE("two flows on one link share it equally, and the longer one speeds up when the shorter ends") {
  // 0 -> 2 carries 1 MB, 1 -> 2 carries 2 MB into the same link down: the first ends after 2 MB in all, the
  // second after 3 MB.
  const std::vector<double> ends =
      run_flows(one_node(3), {{0, 0, 0, 2, 1'000'000, open_cap}, {0, 1, 0, 2, 2'000'000, open_cap}});
  CHECK(near(ends[0], 2e6 / 450e3));
  CHECK(near(ends[1], 3e6 / 450e3));
}

TEST_CASE("a cap holds for its port alone") {
  // Two flows out of rank 0 on two ports: one capped at 100e3, the other takes the remaining 350e3.
  const std::vector<double> ends =
      run_flows(one_node(3), {{0, 0, 0, 1, 1'000'000, 100e3}, {0, 0, 1, 2, 1'000'000, open_cap}});
  CHECK(near(ends[0], 10));
  CHECK(near(ends[1], 1e6 / 350e3));
}

TEST_CASE("a cap is set anew for the next flow of a port") {
  const std::vector<double> ends =
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
  std::vector<double> ends =
      run_flows(fabric, {{0, 1, 0, 0, 1'000'000, open_cap}, {0, 1, 1, 2, 1'000'000, open_cap}});
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
  std::vector<double> ends = run_flows(
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
  const std::vector<double> ends =
      run_flows(one_node(4), {{3.0004, 0, 0, 1, 450'000, open_cap}, {3.0008, 2, 0, 3, 450'000, open_cap}});
  CHECK(near(ends[0], 4.0004));
  CHECK(near(ends[1], 4.0008));
  CHECK(ends[1] - ends[0] == doctest::Approx(0.0004).epsilon(1e-9));
}

TEST_CASE("a flow alone on its links runs beside flows that share theirs, and is not disturbed") {
  // 0 -> 1 and 2 -> 1 share the link down to 1; 3 -> 4 has its own. When 2 -> 1 ends after 2 x 450 KB, 0 -> 1
  // has 450 KB left.
  const std::vector<double> ends = run_flows(
      one_node(5),
      {{0, 0, 0, 1, 900'000, open_cap}, {0, 2, 0, 1, 450'000, open_cap}, {0, 3, 0, 4, 900'000, open_cap}});
  CHECK(near(ends[1], 2));
  CHECK(near(ends[0], 3));
  CHECK(near(ends[2], 2));
}

TEST_CASE("what ends far away changes a rate through a chain of links") {
  // Up links and down links of 450e3. 0 -> 1 and 0 -> 2 share the link up of 0, 3 -> 2 the link down to 2
  // with the second, whose cap of 300e3 does not bind. All three run at 225e3. When 0 -> 1 ends at t = 1, 0
  // -> 2 and 3 -> 2 still share the link down: nothing changes. When 3 -> 2 ends at t = 2, 0 -> 2 rises to
  // 300e3.
  const std::vector<double> ends = run_flows(
      one_node(4),
      {{0, 0, 0, 1, 225'000, open_cap}, {0, 0, 1, 2, 1'050'000, 300e3}, {0, 3, 0, 2, 450'000, open_cap}});
  CHECK(near(ends[0], 1));
  CHECK(near(ends[2], 2));
  CHECK(near(ends[1], 4));
}

TEST_CASE("a full link passes on nothing of what another one gains") {
  // A = 0 -> 1 has a cap of 100e3; B = 0 -> 2, C = 3 -> 2 and D = 3 -> 1 have none. All rise to 100e3, where
  // A stops, and the others to 225e3, where the link up of 3 (C, D) and the link down to 2 (B, C) are full.
  // D's 225 KB end at t = 1, and nothing rises, since B and C still fill the link down to 2. C's 450 KB end
  // at t = 2; from then on B takes the 350e3 that A leaves of the link up of 0, for its last 350 KB.
  const std::vector<double> ends = run_flows(one_node(4), {{0, 0, 0, 1, 1'000'000, 100e3},
                                                           {0, 0, 1, 2, 800'000, open_cap},
                                                           {0, 3, 0, 2, 450'000, open_cap},
                                                           {0, 3, 1, 1, 225'000, open_cap}});
  CHECK(near(ends[0], 10));
  CHECK(near(ends[3], 1));
  CHECK(near(ends[2], 2));
  CHECK(near(ends[1], 3));
}

TEST_CASE("drawn traffic: both engines say the same of every flow") {
  std::mt19937_64 random(7);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int n = 0; n < 60; ++n) {
    CAPTURE(n);
    Fabric fabric;
    fabric.ranks = draw(2, 24);
    fabric.ranks_per_node = draw(1, 8);
    fabric.ranks_per_nic = draw(1, 2);
    fabric.link_bytes_us = 450e3;
    fabric.nic_bytes_us = 50e3;
    fabric.ports = 3;
    if (draw(0, 1) == 1) {
      const int below = fabric.ranks_per_node * draw(1, 2);
      fabric.switches = {{[below](int rank) { return rank / below; }, 70e3}};
      if (draw(0, 1) == 1) fabric.switches.push_back({[below](int rank) { return rank / below / 2; }, 90e3});
    }
    // A port's cap is set while no flow leaves it: each port keeps one.
    std::vector<double> caps(static_cast<std::size_t>(fabric.ranks * fabric.ports));
    for (double& cap : caps) cap = draw(0, 2) == 0 ? open_cap : draw(20, 400) * 1e3;
    std::vector<Flow> flows;
    const bool crowd = draw(0, 2) == 0;  // many that begin together, of equal sizes
    for (int i = draw(1, 120); i > 0; --i) {
      Flow f{crowd ? draw(0, 2) : draw(0, 4000) * 0.01, draw(0, fabric.ranks - 1), draw(0, 2), 0, 0, 0};
      f.to = (f.from + draw(1, fabric.ranks - 1)) % fabric.ranks;
      f.bytes = static_cast<std::uint64_t>(crowd ? 300'000 : draw(1, 2'000'000));
      f.cap_bytes_us = caps[static_cast<std::size_t>(f.from * fabric.ports + f.port)];
      flows.push_back(f);
    }
    run_flows(fabric, flows);
  }
}

}  // namespace cplab
