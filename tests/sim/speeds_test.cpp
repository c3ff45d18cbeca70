// Another link, NIC, memory or peak than tables were measured with: start-ups stay, the rest goes with the
// speed.
#include <doctest/doctest.h>

#include <string>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/session.hpp"
#include "sim/simulate.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

// 1 MB from each rank to the next one of two.
double pair_us(const Hardware& hardware, Transport transport = Transport::nccl) {
  HandPlan p(2);
  exchange_both(p, transport);
  return us(run(p, hardware).time_s);
}

// Of a machine whose curves are of links of 100 GB/s and NICs of 10 GB/s.
Hardware with_link(int gpus, double link_bytes_s, double nic_bytes_s = 10e9) {
  Hardware hardware = hand_machine(gpus);
  for (MessageTable& table : hardware.messages) table.link_bytes_s = table.path == Path::intra ? 100e9 : 10e9;
  hardware.node.link_bytes_s = link_bytes_s;
  hardware.network.nic_bytes_s = nic_bytes_s;
  validate(hardware);
  return hardware;
}

}  // namespace

TEST_CASE("a message over another link: the start-up stays, the efficiency too") {
  // 20 us, then half of the link: 50 GB/s of 100 are 20 us for 1 MB, 100 of 200 are 10, 25 of 50 are 40.
  CHECK(near(pair_us(with_link(2, 100e9)), 40));
  CHECK(near(pair_us(with_link(2, 200e9)), 30));
  CHECK(near(pair_us(with_link(2, 50e9)), 60));
  // 5 us, then all of the link.
  CHECK(near(pair_us(with_link(2, 200e9), Transport::copy), 10));
  CHECK(near(pair_us(with_link(2, 50e9), Transport::copy), 25));
  // 30 us, then half of the NIC: 5 GB/s of 10 are 200 us for 1 MB.
  CHECK(near(pair_us(with_link(1, 100e9)), 230));
  CHECK(near(pair_us(with_link(1, 100e9, 20e9)), 130));
  CHECK(near(pair_us(with_link(1, 100e9, 5e9)), 430));
}

TEST_CASE("what another link than the curve's carries is no better known than the link") {
  const auto origin = [](double link_bytes_s, Origin of_link) {
    Hardware hardware = with_link(2, link_bytes_s);
    hardware.node.provenance.origin = of_link;
    HandPlan p(2);
    exchange_both(p);
    return run(p, hardware).timeline.ranks[0][0].origin;
  };
  CHECK(origin(100e9, Origin::assumed) == Origin::measured);
  CHECK(origin(200e9, Origin::measured) == Origin::extrapolated);
  CHECK(origin(200e9, Origin::assumed) == Origin::assumed);
  CHECK(origin(50e9, Origin::assumed) == Origin::assumed);
}

TEST_CASE("a collective over another link: by its own curve, of which a rank's share carries the bytes") {
  // Each of two ranks gives 1 MB: 40 us at 100 GB/s, of which 10 us could be the bytes, and 60 at 2 MB. The
  // start-up is then min(40 - 10, 60 - 20) = 30, and the 10 us behind it are 5 at 200 GB/s and 20 at 50.
  const auto time_us = [](double link_bytes_s) {
    Hardware hardware = with_link(2, link_bytes_s);
    MessageTable table = hardware.messages[0];
    table.kind = OpKind::reduce_scatter;
    table.points = {{1e6, 40e-6}, {2e6, 60e-6}};
    hardware.messages.push_back(table);
    HandPlan p(2);
    for (int r = 0; r < 2; ++r) p.collective(r, OpKind::reduce_scatter, mega);
    return us(run(p, hardware).time_s);
  };
  CHECK(near(time_us(100e9), 40));
  CHECK(near(time_us(200e9), 35));
  CHECK(near(time_us(50e9), 50));
}

TEST_CASE("a curve over bytes on another memory: its launch stays") {
  // At 1 TB/s 1 MB take 3 us, of which 2 us are a launch; 2 TB/s carry the rest in 0.5 us, 0.5 TB/s in 2.
  const auto merge_us = [](double copy_bytes_s) {
    Hardware hardware = hand_machine(1);
    KernelTable table;
    table.kind = OpKind::merge;
    table.provenance.origin = Origin::measured;
    table.curve = {{1e6, 3e-6}, {4e6, 6e-6}};
    hardware.kernels = {table};
    hardware.curve_copy_bytes_s = 1e12;
    hardware.gpu.copy_bytes_s = copy_bytes_s;
    Plan plan;
    RankPlan rank;
    Operation op;
    op.kind = OpKind::merge;
    op.bytes = mega;
    const KernelCost cost = standard_kernel_cost(hardware)(plan, CallConverter(rank, DType::bf16), op);
    CHECK(cost.origin == (copy_bytes_s == 1e12 ? Origin::measured : Origin::extrapolated));
    return us(cost.seconds);
  };
  CHECK(near(merge_us(1e12), 3));
  CHECK(near(merge_us(2e12), 2.5));
  CHECK(near(merge_us(0.5e12), 4));
}

TEST_CASE("attention at another peak: its launch stays") {
  // 100 us with a launch of 2: 51 at twice the peak, 198 at half.
  const auto attend_us = [](double peak) {
    Hardware hardware = hand_machine(1);
    hardware.kernels_of = "library";
    hardware.gpu.least_kernel_s = 2e-6;
    KernelTable table;
    table.variant = "library";
    table.head_size = table.value_size = 64;
    table.provenance.origin = Origin::measured;
    table.points = {{1, 1280, 10, 100e-6}};
    hardware.kernels = {table};
    hardware.curve_peak_flops = {{"bf16", 100e12}};
    hardware.gpu.peak_flops = {{"bf16", peak}};
    Plan plan;
    plan.scenario.problem.head_size = plan.scenario.problem.value_size = 64;
    RankPlan rank;
    Operation op;
    give_operands(rank, op, 10, 64);
    op.segments = {0, 1};
    rank.segments.push_back({0, 1280, 0, 1280, 0, -1, -1});
    const KernelCost cost = standard_kernel_cost(hardware)(plan, CallConverter(rank, DType::bf16), op);
    CHECK(cost.origin == (peak == 100e12 ? Origin::measured : Origin::extrapolated));
    return us(cost.seconds);
  };
  CHECK(near(attend_us(100e12), 100));
  CHECK(near(attend_us(200e12), 51));
  CHECK(near(attend_us(50e12), 198));
}

TEST_CASE(
    "on every machine of nodes: twice a speed never slows, half never speeds up, and what binds moves") {
  for (const char* machine : {"h100x64", "h200x64", "h800x8", "a100x8", "b200x8", "mi300x8"}) {
    CAPTURE(machine);
    const std::string path = std::string(CPLAB_TEST_SCENARIOS "/hardware/") + machine + ".toml";
    const Hardware base = read_hardware(path);
    const ScenarioFile file =
        read_scenario("ring", {"problem.sequence=32K", "problem.heads=8", "problem.kv_heads=8",
                               "parallel.ranks=16", "schedule.overlap=false", "hardware.file=" + path});
    const Plan plan = build_plan(on_machine(file));
    const auto time_s = [&](const std::string& key, double value) {
      return simulate(plan, read_hardware(path, {{key, std::to_string(value)}})).time_s;
    };
    const double base_s = simulate(plan, base).time_s;
    const auto both_ways = [&](const std::string& key, double value, bool binds) {
      CAPTURE(key);
      const double faster_s = time_s(key, 2 * value), slower_s = time_s(key, value / 2);
      CHECK(faster_s <= base_s * (1 + relative));
      CHECK(slower_s >= base_s * (1 - relative));
      if (!binds) return;
      CHECK(faster_s < base_s * (1 - 1e-4));
      CHECK(slower_s > base_s * (1 + 1e-4));
    };
    both_ways("node.link_bytes_s", base.node.link_bytes_s, true);
    both_ways("network.nic_bytes_s", base.network.nic_bytes_s, true);
    both_ways("gpu.copy_bytes_s", base.gpu.copy_bytes_s, true);
    both_ways("gpu.peak_flops.bf16", base.gpu.peak("bf16"), true);
    CHECK(near(time_s("gpu.peak_flops.bf16", base.gpu.peak("bf16")), base_s));
    // A flat ring has one flow out of a node, which has a whole NIC; two NICs a GPU carry it twice as fast.
    const auto with_nics = [&](int nics) {
      return simulate(plan, read_hardware(path, {{"network.nics", std::to_string(nics)}})).time_s;
    };
    CHECK(near(with_nics(base.network.nics / 2), base_s));
    CHECK(with_nics(2 * base.network.nics) < base_s * (1 - 1e-4));
  }
}

}  // namespace cplab
