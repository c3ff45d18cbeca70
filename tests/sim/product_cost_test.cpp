// Products of latent keys and values on 100 multiprocessors: waves of 128 x 256 results, memory, few results.
#include "sim/product_cost.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "sim/class_efficiency.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using sim_test::near;

// Two heads of 128 + 64 and 128 columns from latents of 512, on one rank.
Plan plan_of(std::int64_t tokens) {
  Scenario s;
  Problem& p = s.problem;
  p.batch = 1, p.sequence = tokens;
  p.lengths = p.padded_lengths = {tokens};
  p.heads = p.kv_heads = 2;
  p.head_size = 192, p.value_size = 128;
  p.kv_latent = 512, p.rope_size = 64;
  p.causal = true, p.scale = 0.1;
  s.algorithm = "ring";
  return build_plan(resolve(s));
}

Hardware machine(double peak) {
  Hardware hardware = sim_test::hand_machine(1);
  hardware.gpu.peak_flops = {{"bf16", peak}};
  hardware.efficiency.share[static_cast<std::size_t>(KernelClass::gemm)] = 0.5;
  return hardware;
}

const Operation& first(const RankPlan& rank, OpKind kind) {
  return *std::ranges::find(rank.operations, kind, &Operation::kind);
}

KernelCost cost(const Plan& plan, OpKind kind, double peak) {
  const Hardware hardware = machine(peak);
  const RankPlan& rank = plan.ranks[0];
  return standard_kernel_cost(hardware)(plan, CallConverter(rank, DType::bf16), first(rank, kind));
}

}  // namespace

TEST_CASE("a projection takes its FLOPs at the share of peak that products reach, in whole waves") {
  // 100 tiles of rows, one of columns for K and one for V: two full waves.
  Plan plan = plan_of(12800);
  const double flops = 2.0 * 12800 * 512 * 2 * (128 + 128);
  CHECK(first(plan.ranks[0], OpKind::project).flops == flops);
  KernelCost full = cost(plan, OpKind::project, 1e14);
  CHECK(near(full.seconds, flops / 0.5e14));
  CHECK(full.waves == 2);
  CHECK(full.tail_sms == 100);
  // 51 tiles of rows: 102 thread blocks, of which two are a wave of their own.
  plan = plan_of(51 * 128);
  KernelCost partial = cost(plan, OpKind::project, 1e14);
  CHECK(near(partial.seconds, flops * 51 / 100 / (0.5e14 * 0.51)));
  CHECK(partial.tail_sms == 2);
}

TEST_CASE("a projection is no faster than memory carries its operands") {
  const Plan plan = plan_of(12800);
  for (const OpKind kind : {OpKind::project, OpKind::project_backward, OpKind::weight_gradient}) {
    const KernelCost cost_of = cost(plan, kind, 1e18);
    CHECK(near(cost_of.seconds, static_cast<double>(first(plan.ranks[0], kind).bytes) / 1e12));
    CHECK(cost_of.useful_sms == 50);
  }
}

// 16 thread blocks of results, whose sums of 12800 tokens are shared by seven: all multiprocessors work.
TEST_CASE("gradients of weights are few results of long sums, which several thread blocks share") {
  const Plan plan = plan_of(12800);
  const KernelCost shared = cost(plan, OpKind::weight_gradient, 1e14);
  CHECK(near(shared.seconds, 2.0 * 12800 * 512 * 2 * 256 / 0.5e14));
  CHECK(shared.waves == 1);
}

}  // namespace cplab
