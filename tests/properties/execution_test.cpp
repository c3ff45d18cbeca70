// Executed on the CPU, every plan gives what dense attention gives, in every order that it permits, and uses
// the memory that was planned.
#include <doctest/doctest.h>

#include <algorithm>
#include <tuple>
#include <vector>

#include "algorithms/core/build.hpp"
#include "cli/verify/verify.hpp"
#include "plan/tensors.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

constexpr std::uint64_t orders = 8;  // random ones, beside that of the program

VerifyResult verify_in_order(const Plan& plan, const Inputs& inputs, bool random, std::uint64_t seed) {
  VerifyOptions options;
  options.execution.order = {random, seed};
  options.execution.keep_log = false;
  return verify(plan, inputs, options);
}

using Key = std::tuple<std::uint32_t, std::uint32_t, std::int64_t>;  // operation, buffer, bytes

std::vector<Key> keys(const std::vector<MemoryEvent>& events) {
  std::vector<Key> out;
  for (const MemoryEvent& e : events) out.emplace_back(e.operation, e.buffer, e.bytes);
  std::sort(out.begin(), out.end());
  return out;
}

// Every tensor of the problem on every rank, and the states at edges that a rank has as outputs.
std::size_t compared_tensors(const Plan& plan) {
  const auto tensors = tensors_of(plan.scenario.problem, Category::output);
  std::size_t count = tensors.size() * plan.ranks.size();
  for (const RankPlan& rank : plan.ranks)
    for (const Buffer& buffer : rank.buffers)
      count += buffer.category == Category::output &&
               std::ranges::find(tensors, buffer.name, &ProblemTensor::buffer) == tensors.end();
  return count;
}

}  // namespace

TEST_CASE("long: in fp64 the result is that of dense attention to 1e-12, in every order bit by bit") {
  for (const auto& [name, scenario] : testing::all_scenarios(DType::fp64)) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const Inputs inputs = random_inputs(scenario.problem, 7);
    const VerifyResult program = verify_in_order(plan, inputs, false, 0);
    for (const Finding& f : program.findings) FAIL_CHECK(f.operation << ": " << f.message);
    REQUIRE(program.outputs.has_value());
    CHECK(program.tensors.size() == compared_tensors(plan));
    for (const TensorFigures& t : program.tensors) CHECK(t.rel_l2 <= 1e-12);
    for (std::uint64_t seed = 1; seed <= orders; ++seed) {
      const VerifyResult random = verify_in_order(plan, inputs, true, seed);
      REQUIRE(random.outputs.has_value());
      CHECK(random.outputs->same_bits(*program.outputs));
    }
  }
}

TEST_CASE("in bf16 the result is within its tolerance of the reference") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const VerifyResult result = verify_in_order(plan, random_inputs(scenario.problem, 8), true, 5);
    for (const Finding& f : result.findings) FAIL_CHECK(f.operation << ": " << f.message);
    CHECK(result.ok());
  }
}

TEST_CASE("births and deaths of an execution equal the memory plan, in any order") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const Inputs inputs = random_inputs(scenario.problem, 3);
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
