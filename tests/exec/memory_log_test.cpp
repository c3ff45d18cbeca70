// What the executor did to memory equals what the planner says, key by key.
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

#include "algorithms/build.hpp"
#include "cli/verify/tensors.hpp"
#include "exec/cpu/executor.hpp"
#include "tests/exec/scenarios.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using Key = std::tuple<std::uint32_t, std::uint32_t, std::int64_t>;  // operation, buffer, bytes

std::vector<Key> keys(const std::vector<MemoryEvent>& events) {
  std::vector<Key> out;
  for (const MemoryEvent& e : events) out.emplace_back(e.operation, e.buffer, e.bytes);
  std::sort(out.begin(), out.end());
  return out;
}

TEST_CASE("births and deaths of an execution equal the memory plan, in any order of execution") {
  std::vector<ScenarioSpec> specs;
  for (const std::int64_t ranks : {1, 2, 3, 5}) {
    for (const char* merge : {"incremental", "deferred", "fused"}) {
      ScenarioSpec spec;
      spec.ranks = ranks;
      spec.sequence = 20;
      spec.options = {{"merge", word(merge)}};
      specs.push_back(spec);
    }
  }
  specs.push_back({});
  specs.back().options = {{"kv_slots", word("all")}, {"tile_inputs", word("copy")}};
  specs.push_back({});
  specs.back().lengths = {5, 0, 9};
  specs.back().dtype = DType::bf16;
  for (const ScenarioSpec& spec : specs) {
    const Plan plan = build_plan(scenario(spec));
    const Inputs inputs = random_inputs(plan.scenario.problem, 3);
    for (const bool random : {false, true}) {
      CpuOptions options;
      options.order = {random, 11};
      CpuExecutor executor(plan, options);
      scatter(plan, inputs, executor);
      const ExecutionResult result = executor.run();
      REQUIRE(result.memory.size() == plan.ranks.size());
      for (const RankPlan& rank : plan.ranks) {
        const MemoryPlan planned = plan_memory(rank);
        const MemoryLog& log = result.memory[static_cast<std::size_t>(rank.rank)];
        CHECK(keys(memory_events(rank, log)) == keys(planned.events));
        for (const MemoryUse& use : log.uses) {  // every use lies in the block that the planner placed
          const Buffer& buffer = rank.buffers[use.buffer];
          CHECK(use.offset >= buffer.offset);
          CHECK(use.offset + use.bytes <= buffer.offset + buffer.bytes);
          CHECK(use.lane == rank.operations[use.operation].lane);
        }
      }
    }
  }
}

TEST_CASE("a buffer is logged when an operation uses it, and not otherwise") {
  Plan plan = hand::ranks_in_one_group(1);
  hand::Rank rank(plan, 0);
  const auto used = rank.buffer(hand::column("used", 4));
  rank.buffer(hand::column("unused", 4));
  const auto input = rank.buffer(hand::column("input", 4, Category::input));
  rank.fill(hand::compute, rank.view(used, {{1, 2, 2}}));
  rank.copy(hand::compute, rank.view(input), rank.view(used));
  CpuExecutor executor(plan, {});
  executor.write(0, "input", std::vector<double>{1, 2, 3, 4});
  const ExecutionResult result = executor.run();
  const MemoryLog& log = result.memory[0];
  REQUIRE(log.uses.size() == 3);
  CHECK(log.uses[0] == MemoryUse{0, used, 8, 24, hand::compute, true});  // rows 1 and 3
  CHECK(keys(memory_events(plan.ranks[0], log)) ==
        std::vector<Key>{{0, used, 32}, {0, input, 32}, {1, used, -32}});
}

}  // namespace
}  // namespace cplab
