// The simulator runs every plan to its end on a shipped machine, respects its order, and reports the bytes
// that the checker counts.
#include "sim/simulate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "cli/files/hardware_file.hpp"
#include "report/figures.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

// Eight nodes: also replicas that lie on two of them.
const Hardware& machine() {
  static const Hardware hardware = read_hardware(CPLAB_TEST_SCENARIOS "/hardware/h100x64.toml");
  return hardware;
}

// Copy engines reach no other node: where the scenario needs one, messages go over NCCL.
Plan plan_for_machine(Scenario scenario) {
  if (scenario.parallel.world() > machine().node.gpus)
    scenario.schedule.set("transport", std::string("nccl"));
  return build_plan(scenario);
}

// Times of one clock are sums of the same doubles in another order, about a microsecond to a millisecond
// each: a picosecond is far above their rounding and below any operation.
constexpr double slack_s = 1e-12;

}  // namespace

TEST_CASE("long: every plan ends on a shipped machine, each operation behind what it waits for") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = plan_for_machine(scenario);
    const Simulation simulation = simulate(plan, machine());
    double end = 0;
    REQUIRE(simulation.timeline.ranks.size() == plan.ranks.size());
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      const RankPlan& rank = plan.ranks[r];
      const std::vector<OperationTime>& times = simulation.timeline.ranks[r];
      REQUIRE(times.size() == rank.operations.size());
      std::map<std::pair<int, int>, double> lanes;  // when the lane's last operation ended
      for (std::size_t i = 0; i < times.size(); ++i) {
        CHECK(times[i].start_s >= 0);
        CHECK(times[i].end_s >= times[i].start_s);
        const Lane lane = rank.operations[i].lane;
        double& before = lanes[{static_cast<int>(lane.kind), lane.index}];
        CHECK(times[i].start_s >= before - slack_s);
        before = times[i].end_s;
        for (const std::uint32_t edge : rank.after(rank.operations[i]))
          CHECK(times[i].start_s >= times[edge].end_s - slack_s);
        end = std::max(end, times[i].end_s);
      }
    }
    CHECK(simulation.time_s == end);
    CHECK(simulation.low_s <= simulation.time_s);
    CHECK(simulation.time_s <= simulation.high_s);
  }
}

TEST_CASE("long: figures of a simulated plan have the checker's bytes and the planner's peaks") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = plan_for_machine(scenario);
    std::vector<MemoryPlan> memory;
    for (const RankPlan& rank : plan.ranks) memory.push_back(plan_memory(rank));
    const Figures figures = derive_figures(plan, simulate(plan, machine()).timeline, memory);
    const CheckResult checked = check(plan);
    std::int64_t sent = 0, received = 0, messages = 0;
    for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
      std::int64_t all_reduced = 0;  // has no parts: the checker does not count it
      for (const Operation& op : plan.ranks[r].operations) {
        if (op.kind == OpKind::all_reduce) all_reduced += op.bytes;
        for (const Part& part : plan.ranks[r].parts_of(op))
          messages += part.send && part.peer != plan.ranks[r].rank;
      }
      CHECK(figures.ranks[r].sent_bytes == checked.sent_bytes[r] + all_reduced);
      CHECK(figures.ranks[r].peak_bytes == memory[r].live_peak_bytes);
      sent += figures.ranks[r].sent_bytes;
      received += figures.ranks[r].received_bytes;
    }
    CHECK(sent == received);
    CHECK(figures.messages == messages);
  }
}
