// Plans that cannot be executed are refused, and no mutated plan reaches outside its memory.
#include <doctest/doctest.h>

#include <limits>

#include "cli/verify/tensors.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/random_mutation.hpp"

namespace cplab {
namespace {

constexpr std::int64_t largest_int = std::numeric_limits<std::int64_t>::max();

template <class Break>
void check_refused(Break breaks) {
  Plan plan = hand::ring(4, 8, hand::Merge::incremental, Direction::forward_backward, DType::fp64);
  require_executable(plan);
  breaks(plan.ranks[1]);
  CHECK_THROWS_AS(CpuExecutor(plan, {}), BadPlan);
}

TEST_CASE("indices and boxes out of range are refused before anything runs") {
  const auto exchange = [](RankPlan& r) -> Operation& {
    for (Operation& op : r.operations) {
      if (op.kind == OpKind::exchange) return op;
    }
    return r.operations.front();
  };
  check_refused([](RankPlan& r) { r.buffers[0].offset = r.arena_bytes; });
  check_refused([](RankPlan& r) { r.buffers[0].offset = -256; });
  check_refused([](RankPlan& r) { r.buffers[0].offset += 1; });
  check_refused([](RankPlan& r) { r.buffers[0].bytes -= 1; });
  check_refused([](RankPlan& r) { r.buffers[0].rows = largest_int / 4; });
  check_refused([](RankPlan& r) { r.buffers[0].rows = -1; });
  check_refused([](RankPlan& r) { r.buffers[0].planes = 99; });
  check_refused([](RankPlan& r) { r.views[0].buffer = 1000; });
  check_refused([](RankPlan& r) { r.views[0].slot_end = 7; });
  check_refused([](RankPlan& r) { r.views[0].head_begin = -1; });
  check_refused([](RankPlan& r) { r.views[0].width_end = std::numeric_limits<std::int32_t>::max(); });
  check_refused([](RankPlan& r) { r.views[0].ranges.count = 1000000; });
  check_refused([](RankPlan& r) { r.row_ranges[0].begin = largest_int; });
  check_refused([](RankPlan& r) { r.row_ranges[0].count = largest_int; });
  check_refused([](RankPlan& r) { r.row_ranges[0].step = largest_int; });
  check_refused([](RankPlan& r) { r.row_ranges[0].step = 0; });
  check_refused([](RankPlan& r) { r.accesses[0].view = 1000; });
  check_refused([](RankPlan& r) { r.operations[0].reads.first = 4000000000u; });
  check_refused([](RankPlan& r) { r.operations[0].segments.count = 1000; });
  check_refused([&](RankPlan& r) { exchange(r).group = 9; });
  check_refused([](RankPlan& r) { r.parts[0].peer = 4; });
  check_refused([](RankPlan& r) { r.parts[0].peer = -1; });
  check_refused([](RankPlan& r) { r.parts[0].view = 1000; });
  check_refused([](RankPlan& r) { r.edges[0] = 1000; });
  check_refused([](RankPlan& r) { r.rank = 2; });
}

TEST_CASE("two ends of a message that differ in shape or dtype are refused") {
  for (const bool shape : {true, false}) {
    Plan plan = hand::ranks_in_one_group(2, "all", DType::bf16);
    for (int r = 0; r < 2; ++r) {
      hand::Rank rank(plan, r);
      Buffer b = hand::column("x", 4);
      if (r == 1 && !shape) b.role = Role::wide;
      const auto x = rank.buffer(b);
      rank.communicate(hand::comm, OpKind::exchange,
                       {{rank.view(x, {{0, r == 1 && shape ? 3 : 4, 1}}), 1 - r, r == 0}});
    }
    CpuExecutor executor(plan, {});
    try {
      executor.run();
      FAIL("the message was delivered");
    } catch (const BadPlan& bad) {
      CHECK(bad.kind == FindingKind::unmatched);
      CHECK(bad.rank == 1);
      CHECK(bad.operation == "1/forward/0");
      CHECK(bad.buffer == "x");
    }
  }
}

// Whatever a mutation does, the execution ends: with a result, a refusal or a hang.
TEST_CASE("random mutants never escape") {
  int finished = 0, refused = 0, hung = 0;
  const Plan right = hand::ring(4, 8, hand::Merge::incremental, Direction::forward_backward, DType::fp64);
  const Inputs inputs = random_inputs(right.scenario.problem, 1);
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Plan plan = right;
    mutate_at_random(plan, seed);
    CpuOptions options;
    options.order = {seed % 2 == 1, seed};
    options.timeout_s = 20;
    try {
      CpuExecutor executor(plan, options);
      scatter(plan, inputs, executor);
      const ExecutionResult result = executor.run();
      CHECK(result.overrun_ranks.empty());
      ++finished;
    } catch (const BadPlan&) {
      ++refused;
    } catch (const ExecutionHang& hang) {
      CHECK_FALSE(hang.timed_out);
      ++hung;
    }
  }
  CHECK(finished > 0);
  CHECK(hung > 0);
  CHECK(finished + refused + hung == 300);
}

}  // namespace
}  // namespace cplab
