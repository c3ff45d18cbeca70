// The published benchmark around a plan: what stands where, what is timed, and what its kernels cost, worked
// out by hand.
#include "cli/studies/lasp_benchmark.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "algorithms/core/build.hpp"
#include "cli/files/scenario_file.hpp"
#include "sim/simulate.hpp"
#include "tests/cli/program.hpp"

namespace cplab {
namespace {

constexpr double us = 1e-6;

Plan plan_of(const std::string& algorithm, int ranks, int replicas, const std::string& direction) {
  const std::string text =
      "[problem]\nattention = \"linear\"\nslopes = \"alibi\"\nbatch = " + std::to_string(2 * replicas) +
      "\nsequence = " + std::to_string(512 * ranks) +
      "\nheads = 12\nhead_size = 128\nvalue_size = 64\ndtype = \"bf16\"\nmask = \"causal\"\ndirection = \"" +
      direction + "\"\n[parallel]\nranks = " + std::to_string(ranks) +
      "\nreplicas = " + std::to_string(replicas) + "\nalgorithm = \"" + algorithm +
      "\"\n[schedule]\nbetween = \"layers\"\ntransport = \"nccl\"\n";
  return build_plan(parse_scenario(text, "test.toml", {}).scenario);
}

// No time but that of kernels: 1 us a barrier, everything else of the host 0.
Hardware machine(int gpus) {
  Hardware hardware;
  hardware.name = "by hand";
  hardware.node.gpus = gpus;
  hardware.node.link_bytes_s = 100e9;
  hardware.gpu.sms = 100;
  hardware.gpu.capacity_bytes = std::int64_t{80} << 30;
  hardware.gpu.copy_bytes_s = 1e12;
  MessageTable exchange;
  exchange.kind = OpKind::exchange;
  exchange.group = std::max(2, gpus);
  exchange.channels = 1;
  exchange.points = {{1000, 20.01 * us}, {1e6, 40 * us}};
  MessageTable barrier = exchange;
  barrier.kind = OpKind::barrier;
  barrier.points = {{1, 1 * us}};
  hardware.messages = {exchange, barrier};
  return hardware;
}

const LaspKernels kernels{
    .iteration_s = 5 * us, .floor_s = 3 * us, .host_bytes_s = 1e9, .framework_peak = 1e15};

Simulation simulated(const Plan& plan, const Hardware& hardware) {
  return simulate(plan, hardware, {}, lasp_kernel_cost(hardware, kernels));
}

double cost_of(const Plan& plan, OpKind kind, int rank = 0) {
  const Hardware hardware = machine(8);
  const RankPlan& r = plan.ranks[static_cast<std::size_t>(rank)];
  const CallConverter calls(r, plan.scenario.problem.dtype);
  for (const Operation& op : r.operations)
    if (op.kind == kind) return lasp_kernel_cost(hardware, kernels)(plan, calls, op).seconds;
  return -1;
}

}  // namespace

TEST_CASE("each phase stands between two barriers of the world, at which the hosts wait") {
  Plan plan = plan_of("lasp_fuse_parallel", 2, 2, "forward+backward");
  LaspBenchmark benchmark;
  benchmark.phases[0].start = {{6000, false}};
  benchmark.phases[0].before_kernels = {{1000, true}};
  benchmark.phases[0].after_kernels = {{2000, false}};
  benchmark.phases[0].combine = {{3000, false}};
  benchmark.phases[0].end = {{4000, false}};
  bracket(plan, benchmark);
  const auto world = static_cast<std::uint16_t>(plan.groups.size() - 1);
  CHECK(plan.groups[world].ranks == std::vector{0, 1, 2, 3});
  const auto listed = [&](Phase phase) {
    std::string text;
    for (const Operation& op : plan.ranks[0].operations) {
      if (op.phase != phase) continue;
      if (op.kind == OpKind::barrier) CHECK(op.group == world);
      text += std::string(text.empty() ? "" : " ") + std::string(name(op.kind));
      if (op.kind == OpKind::fill && op.bytes % 1000 == 0) text += ":" + std::to_string(op.bytes / 1000);
    }
    return text;
  };
  // Rank 0 receives nothing: it fills; its own barrier waits as those of the bracket do.
  CHECK(listed(Phase::forward) ==
        "barrier host_sync fill:6 barrier host_sync fill fill:1 host_sync local state scan inter fill:2 "
        "combine "
        "fill:3 exchange fill:4 host_sync barrier host_sync");
  CHECK(listed(Phase::backward) ==
        "barrier host_sync exchange local_backward state scan inter host_sync barrier host_sync");
  for (const RankPlan& rank : plan.ranks) {
    std::array<std::uint32_t, 2> next{};
    for (const Operation& op : rank.operations)
      CHECK(op.ordinal == next[static_cast<std::size_t>(op.phase)]++);
  }
}

TEST_CASE("what is timed lies between the two barriers' host waits, the second barrier included") {
  // One rank: a fill of the state that enters, its clone, the kernel; 512 tokens are 8 iterations of 64.
  Plan plan = plan_of("lasp_fuse", 1, 1, "forward");
  bracket(plan, {});
  const Hardware hardware = machine(1);
  CHECK(bracketed_s(plan, simulated(plan, hardware).timeline)[0] == doctest::Approx((3 + 3 + 8 * 5) * us));
  // A pass of 10 us through memory, and a tensor of 4000 bytes from the host, at 1 GB/s.
  Plan more = plan_of("lasp_fuse", 1, 1, "forward");
  LaspBenchmark benchmark;
  benchmark.phases[0].start = {{10e6, false}, {4000, true}};
  bracket(more, benchmark);
  CHECK(bracketed_s(more, simulated(more, hardware).timeline)[0] ==
        doctest::Approx((3 + 3 + 8 * 5 + 10 + 4) * us));
  // Two ranks, a message of 2 x 12 x 128 x 64 fp32 between the kernels, and a barrier of 1 us. Rank 1 begins
  // with its receive, and clones what came.
  Plan two = plan_of("lasp_fuse", 2, 1, "forward");
  bracket(two, {});
  const double bytes = 2.0 * 12 * 128 * 64 * 4;
  const double message = 20 + bytes / (1e6 / 20);
  CHECK(bracketed_s(two, simulated(two, machine(2)).timeline)[0] ==
        doctest::Approx((3 + 3 + 40 + message + 3 + 40 + 1) * us).epsilon(1e-3));
}

TEST_CASE("published kernels: iterations that depend on each other, over waves of two thread blocks") {
  // 2 sequences of 512 tokens, 12 heads, on 100 multiprocessors.
  const Plan serial = plan_of("lasp_cache", 1, 1, "forward+backward");
  CHECK(cost_of(serial, OpKind::local) == doctest::Approx(8 * 5 * us));
  // Diagonal blocks: 2 x 12 x 16 of them are two waves; then 2 sweeps of 2 loops over 32 blocks of 16 tokens.
  CHECK(cost_of(serial, OpKind::local_backward) == doctest::Approx((2 + 128) * 5 * us));
  const Plan sliced = plan_of("lasp_fuse", 1, 1, "forward+backward");
  CHECK(cost_of(sliced, OpKind::local_backward) == doctest::Approx(32 * 5 * us));
  // Blocks of 256: 4 chunks; 2 x 2 x 12 x 4 diagonal blocks of 1 to 4 iterations in one wave; a state 4
  // iterations; the scan 2 blocks; what states hold 1, backward 3.
  const Plan blocked = plan_of("lasp_fuse_parallel", 1, 1, "forward+backward");
  CHECK(cost_of(blocked, OpKind::local) == doctest::Approx(2.5 * 5 * us));
  CHECK(cost_of(blocked, OpKind::state) == doctest::Approx(4 * 5 * us));
  CHECK(cost_of(blocked, OpKind::scan) == doctest::Approx(2 * 5 * us));
  CHECK(cost_of(blocked, OpKind::inter) == doctest::Approx(5 * us));
}

}  // namespace cplab
