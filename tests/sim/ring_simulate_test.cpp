// Ring attention against a closed form: what communication costs beside kernels that are longer or shorter.
#include <doctest/doctest.h>

#include <algorithm>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "tests/sim/hand_plan.hpp"

namespace cplab {
namespace {

using namespace sim_test;

TEST_CASE("ring forward: hidden communication costs nothing, exposed communication its own time") {
  // A real plan, one compute lane, fused merge, on a machine where the host and interference cost nothing and
  // the exchange holds no multiprocessor. P equal kernels of c; the hop of step i runs beside kernel i, so
  // the time is c + (P - 1) max(c, hop).
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.batch = 1;
  problem.sequence = 4096;
  problem.lengths = problem.padded_lengths = {4096};
  problem.heads = problem.kv_heads = 8;
  problem.head_size = problem.value_size = 64;
  problem.scale = 0.125;
  problem.direction = Direction::forward;
  scenario.parallel.ranks = 4;
  scenario.parallel.groups = {{0, 1, 2, 3}};
  scenario.algorithm = "ring";
  scenario.schedule.set("compute_lanes", std::int64_t{1});
  scenario.schedule.set("kv_slots", std::string("all"));
  scenario.schedule.set("merge", std::string("fused"));
  scenario.schedule.set("accumulator", std::string("nominal"));
  scenario.schedule.set("transport", std::string("copy"));
  const Plan plan = build_plan(resolve(scenario));
  const Hardware hardware = hand_machine(4);
  // K and V of 1024 rows, 8 heads, 64 + 64 columns, 2 bytes: 2 MiB at 100 GB/s after 5 us.
  const double hop = 5e-6 + 2.0 * 1024 * 1024 / 100e9;
  for (const double c : {100e-6, 10e-6}) {
    const auto cost = [c](const Plan&, const CallConverter&, const Operation& op) {
      KernelCost result;
      result.seconds = op.kind == OpKind::attend ? c : 0;
      result.tail_sms = result.useful_sms = 100;
      return result;
    };
    CHECK(near(simulate(plan, hardware, {}, cost).time_s, c + 3 * std::max(c, hop)));
  }
}

}  // namespace
}  // namespace cplab
