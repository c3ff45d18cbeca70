// Plans as two calls (derive/phases.hpp) on a framework's tensors (exec/gpu/tensor_places.hpp): each phase of
// every plan stands alone, and its scratch memory shares bytes as the arena does.
#include <algorithm>
#include <set>

#include "derive/phases.hpp"

#include <doctest/doctest.h>

#include "algorithms/core/build.hpp"
#include "exec/bind.hpp"
#include "exec/gpu/tensor_places.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

bool is_callers(const Buffer& buffer) {
  return buffer.category == Category::input || buffer.category == Category::output ||
         buffer.category == Category::saved;
}

std::set<std::uint32_t> written(const RankPlan& rank, DType nominal) {
  const Binder binder(rank, nominal, nullptr);
  std::set<std::uint32_t> buffers;
  for (const Operation& op : rank.operations)
    for (const MemoryUse& use : binder.uses(op))
      if (use.written) buffers.insert(use.buffer);
  return buffers;
}

// What the phase reads before it has written it: what the other phase left, and rows of padding, which may
// hold anything.
std::set<std::uint32_t> read_first(const RankPlan& rank, DType nominal) {
  const Binder binder(rank, nominal, nullptr);
  std::set<std::uint32_t> read, filled;
  for (const Operation& op : rank.operations) {
    for (const MemoryUse& use : binder.uses(op))
      if (!use.written && !filled.contains(use.buffer)) read.insert(use.buffer);
    for (const MemoryUse& use : binder.uses(op))
      if (use.written) filled.insert(use.buffer);
  }
  return read;
}

void check_scratch(const RankPlan& rank, DType nominal) {
  const PhaseMemory memory(rank, nominal);
  std::vector<TensorPlace> places(memory.tensors().size());
  auto* const base = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 40);
  const std::vector<BufferMemory> at = memory.places(places, base);
  CHECK(memory.scratch_bytes() <= rank.arena_bytes);
  for (std::size_t a = 0; a < at.size(); ++a) {
    if (at[a].data == nullptr) continue;
    const Buffer& x = rank.buffers[a];
    CHECK_FALSE(is_callers(x));
    CHECK((at[a].data - base) % 256 == 0);
    CHECK(at[a].data + x.bytes <= base + memory.scratch_bytes());
    for (std::size_t b = 0; b < a; ++b) {
      if (at[b].data == nullptr) continue;
      const Buffer& y = rank.buffers[b];
      const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
      if (apart) CHECK((at[a].data + x.bytes <= at[b].data || at[b].data + y.bytes <= at[a].data));
      if (!apart) CHECK(at[a].data - at[b].data == x.offset - y.offset);
    }
  }
}

// K and V are two tensors; what a message takes has no gaps.
void check_tensors(const RankPlan& rank, DType nominal) {
  std::set<std::string> sent;
  for (const Operation& op : rank.operations)
    for (const Part& part : rank.parts_of(op)) sent.insert(rank.buffers[rank.views[part.view].buffer].name);
  std::int64_t kv_bytes = 0;
  const PhaseMemory memory(rank, nominal);
  for (const PhaseTensor& tensor : memory.tensors()) {
    CHECK((tensor.plane >= 0) == (tensor.buffer == "kv" && tensor.category == Category::input));
    if (tensor.plane >= 0) kv_bytes += tensor.bytes;
    if (tensor.any_strides) CHECK_FALSE(sent.contains(tensor.buffer));
    if (tensor.buffer == "q") CHECK(tensor.any_strides == !sent.contains("q"));
  }
  for (const Buffer& buffer : rank.buffers)
    if (buffer.name == "kv" && kv_bytes > 0) CHECK(kv_bytes == buffer.bytes);
}

}  // namespace

TEST_CASE(
    "phases: each stands alone; what crosses is an input, an output or saved, and the backward leaves it") {
  for (auto [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    if (scenario.problem.direction == Direction::forward) continue;
    scenario.schedule.set("between", std::string("layers"));
    Plan whole = build_plan(scenario);
    part_inputs(whole);
    const Plan forward = phase_alone(whole, Phase::forward), backward = phase_alone(whole, Phase::backward);
    require_executable(forward);
    require_executable(backward);
    for (std::size_t r = 0; r < whole.ranks.size(); ++r) {
      const RankPlan& before = forward.ranks[r];
      const RankPlan& after = backward.ranks[r];
      REQUIRE(before.operations.size() + after.operations.size() == whole.ranks[r].operations.size());
      for (const RankPlan* rank : {&before, &after}) {
        check_scratch(*rank, scenario.problem.dtype);
        check_tensors(*rank, scenario.problem.dtype);
      }
      for (const std::uint32_t buffer : read_first(after, scenario.problem.dtype)) {
        const bool crosses = written(before, scenario.problem.dtype).contains(buffer);
        if (crosses) CHECK_MESSAGE(is_callers(after.buffers[buffer]), after.buffers[buffer].name);
      }
      // A second backward of one forward finds the same.
      const PhaseMemory first(before, scenario.problem.dtype), second(after, scenario.problem.dtype);
      std::set<std::string> given;
      for (const PhaseTensor& tensor : first.tensors()) given.insert(tensor.buffer);
      for (const PhaseTensor& tensor : second.tensors())
        if (given.contains(tensor.buffer)) CHECK_MESSAGE(!tensor.written, tensor.buffer);
    }
  }
}

TEST_CASE("phases: a plan that saves nothing for the backward is no two calls") {
  Scenario scenario;
  for (const auto& each : testing::all_scenarios())
    if (each.scenario.algorithm == "ring" && each.scenario.problem.direction == Direction::forward_backward)
      scenario = each.scenario;
  scenario.schedule.set("between", std::string("nothing"));
  const Plan plan = build_plan(scenario);
  CHECK_THROWS_WITH_AS((void)phase_alone(plan, Phase::forward),
                       doctest::Contains("schedule.between=\"layers\""), std::invalid_argument);
  scenario.problem.direction = Direction::forward;
  const Plan forward = build_plan(scenario);
  CHECK(phase_alone(forward, Phase::forward).ranks[0].operations.size() ==
        forward.ranks[0].operations.size());
  CHECK(phase_alone(forward, Phase::backward).ranks[0].operations.empty());
}
