// Scans of states over ranks under the clock, against the closed forms of the cost model: kernels of given
// times on a machine whose host costs nothing.
#include <doctest/doctest.h>

#include <cmath>

#include "algorithms/core/build.hpp"
#include "algorithms/faults/faults.hpp"
#include "cli/files/scenario_file.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

// What enters is needed by the last of these.
constexpr double local_s = 30e-6, state_s = 20e-6, scan_s = 10e-6, inter_s = 40e-6, combine_s = 5e-6;

Plan plan_of(const std::string& algorithm, int ranks) {
  const bool apart = algorithm != "lasp_fuse_parallel";
  return build_plan(
      parse_scenario("[problem]\nattention = \"linear\"\nslopes = \"alibi\"\nheads = 16\nhead_size = 128\n"
                     "dtype = \"bf16\"\nmask = \"causal\"\ndirection = \"forward\"\nsequence = " +
                         std::to_string(512 * ranks) + "\n[parallel]\nranks = " + std::to_string(ranks) +
                         "\nalgorithm = \"" + algorithm + "\"\n[schedule]\ntransport = \"nccl\"\n" +
                         (apart ? "inter = \"apart\"\noverlap = false\nchunk = 256\n" : ""),
                     "test.toml", {})
          .scenario);
}

double time_of(const Plan& plan) {
  const auto cost = [](const Plan&, const CallConverter&, const Operation& op) {
    KernelCost c;
    c.seconds = op.kind == OpKind::local     ? local_s
                : op.kind == OpKind::state   ? state_s
                : op.kind == OpKind::scan    ? scan_s
                : op.kind == OpKind::inter   ? inter_s
                : op.kind == OpKind::combine ? combine_s
                                             : 0;
    c.tail_sms = 1;
    c.useful_sms = 1;  // a state's exchange beside them slows none of them
    c.origin = Origin::measured;
    return c;
  };
  return simulate(plan, hand_machine(static_cast<int>(plan.ranks.size())), {}, cost).time_s;
}

// 20 us, then 50 GB/s: a state of 16 heads, 128 x 128, fp32.
constexpr double message_s = 20e-6 + 16.0 * 128 * 128 * 4 / 50e9;
constexpr double before_s = local_s + state_s + scan_s;

double log2_up(int n) {
  return std::ceil(std::log2(static_cast<double>(n)));
}

}  // namespace

TEST_CASE("coupled: P kernels and P - 1 messages follow each other, behind a barrier") {
  for (const int P : {2, 4, 8}) {
    const double barrier_s = 20e-6 * log2_up(P);
    CAPTURE(P);
    CHECK(time_of(plan_of("lasp_fuse_parallel", P)) ==
          doctest::Approx(barrier_s + P * (before_s + inter_s) + (P - 1) * (combine_s + message_s))
              .epsilon(1e-9));
  }
}

TEST_CASE("decoupled: a chain carries P - 1 messages and P - 2 combinations, and no kernel over tokens") {
  for (const int P : {2, 4, 8, 16}) {
    CAPTURE(P);
    CHECK(time_of(plan_of("lasp_ring_decoupled", P)) ==
          doctest::Approx(before_s + (P - 1) * message_s + (P - 2) * combine_s + inter_s).epsilon(1e-9));
  }
}

TEST_CASE("trees: rounds of messages with a combination between two of them") {
  // Brent and Kung with a shift: floor(log2 P) + floor(log2(2P / 3)) + 1 rounds; a shift, then Kogge and
  // Stone on P - 1: ceil(log2(P - 1)) + 1. The rank in the middle ends the up-sweep of its half, sends it to
  // the last rank, and next to the first of the down-sweep, with nothing to combine between these two
  // messages.
  for (const int P : {4, 8, 16, 32}) {
    CAPTURE(P);
    const double tree = std::floor(std::log2(P)) + std::floor(std::log2(2.0 * P / 3)) + 1;
    CHECK(time_of(plan_of("lasp_blelloch", P)) ==
          doctest::Approx(before_s + tree * message_s + (tree - 2) * combine_s + inter_s).epsilon(1e-9));
    const double shifted = log2_up(P - 1) + 1;
    CHECK(
        time_of(plan_of("lasp_kogge_stone", P)) ==
        doctest::Approx(before_s + shifted * message_s + (shifted - 1) * combine_s + inter_s).epsilon(1e-9));
  }
}

TEST_CASE("a blocking shift is a chain of P - 1 messages where the grouped one is one round") {
  const Fault* fault = find_fault("blocking-shift");
  REQUIRE(fault != nullptr);
  double before_messages = 0;
  for (const int P : {4, 8, 16, 32}) {
    Plan plan = plan_of("lasp_blelloch", P);
    const double right_s = time_of(plan);
    fault->mutate(plan);
    const double more_messages = (time_of(plan) - right_s) / message_s;
    CAPTURE(P);
    CAPTURE(more_messages);
    CHECK(more_messages > before_messages);
    CHECK(more_messages <= P - 2 + 1e-9);
    // Only what the sweeps still do on ranks far behind hides a part of the chain.
    CHECK(more_messages > P - 2 - 2 * log2_up(P));
    before_messages = more_messages;
  }
}

}  // namespace cplab
