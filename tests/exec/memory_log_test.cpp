// What the executor logs of its memory, on a plan small enough to write down (tests/properties compares log
// and planner on every algorithm).
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>

#include "exec/cpu/executor.hpp"
#include "tests/hand_plans/hand_plans.hpp"

namespace cplab {
namespace {

using LoggedKey = std::tuple<std::uint32_t, std::uint32_t, std::int64_t>;  // operation, buffer, bytes

std::vector<LoggedKey> logged_keys(const std::vector<MemoryEvent>& events) {
  std::vector<LoggedKey> out;
  for (const MemoryEvent& e : events) out.emplace_back(e.operation, e.buffer, e.bytes);
  std::sort(out.begin(), out.end());
  return out;
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
  CHECK(logged_keys(memory_events(plan.ranks[0], log)) ==
        std::vector<LoggedKey>{{0, used, 32}, {0, input, 32}, {1, used, -32}});
}

}  // namespace
}  // namespace cplab
