// Both flow engines say the same of whole simulations: of plans of every family, drawn at random, on one node
// and on several with every kind of network between them.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "algorithms/core/build.hpp"
#include "sim/simulate.hpp"
#include "tests/properties/drawn_scenarios.hpp"

using namespace cplab;

namespace {

// The largest difference of a time of an operation, as a share of the time of the whole.
double difference(const Simulation& a, const Simulation& b) {
  double most = std::abs(a.time_s - b.time_s);
  for (std::size_t r = 0; r < a.timeline.ranks.size(); ++r) {
    for (std::size_t i = 0; i < a.timeline.ranks[r].size(); ++i) {
      const OperationTime &x = a.timeline.ranks[r][i], &y = b.timeline.ranks[r][i];
      most = std::max({most, std::abs(x.start_s - y.start_s), std::abs(x.end_s - y.end_s),
                       std::abs(x.issue_s - y.issue_s), std::abs(x.wait_s - y.wait_s)});
    }
  }
  return most / a.time_s;
}

Simulation simulated_by(FlowEngineChoice engine, const Plan& plan, const Hardware& hardware,
                        const KernelCostFunction& cost, CollectiveModel model) {
  SimulateOptions options;
  options.engine = engine;
  options.collective_model = model;
  return simulate(plan, hardware, options, cost);
}

// False: the plan cannot run on that machine, which both engines say.
bool both_agree(const Plan& plan, const Hardware& hardware, const KernelCostFunction& cost,
                CollectiveModel model) {
  Simulation reference;
  try {
    reference = simulated_by(FlowEngineChoice::simgrid, plan, hardware, cost, model);
  } catch (const StalledError&) {
    CHECK_THROWS_AS(simulated_by(FlowEngineChoice::native, plan, hardware, cost, model), StalledError);
    return false;
  }
  const Simulation native = simulated_by(FlowEngineChoice::native, plan, hardware, cost, model);
  REQUIRE(reference.timeline.ranks.size() == native.timeline.ranks.size());
  CHECK(difference(reference, native) < 1e-9);
  return true;
}

CollectiveModel model_of(int n) {
  return n % 2 == 0 ? CollectiveModel::curve : CollectiveModel::stepwise;
}

// The same machine with another network between its nodes.
Hardware rewired(testing::Random& random, Hardware hardware) {
  NetworkSpec& network = hardware.network;
  network.nics = testing::one_of(random, std::vector<int>{1, 2, 4, 8});
  network.fabric = testing::one_of(random, std::vector<std::string>{"non_blocking", "fat_tree", "rails"});
  network.levels.clear();
  const double one = network.nic_bytes_s;
  if (network.fabric == "rails") network.levels.push_back({2, 1.5 * one});
  if (network.fabric == "fat_tree") network.levels = {{1, 1.2 * one}, {2, 1.7 * one}};
  return hardware;
}

}  // namespace

TEST_CASE("long: both flow engines say the same of 200 drawn plans, operation by operation") {
  testing::Random random(20);
  for (int n = 0; n < 200;) {
    const testing::Drawn drawn = testing::draw_scenario(random);
    const std::string options = testing::options_of(drawn);
    CAPTURE(options);
    n += both_agree(build_plan(drawn.scenario), drawn.machine->hardware, drawn.machine->cost, model_of(n));
  }
}

TEST_CASE("long: both flow engines say the same of 100 plans over several nodes") {
  testing::Random random(21);
  for (int n = 0; n < 100;) {
    const testing::Drawn drawn = testing::draw_scenario(random);
    if (drawn.machine->hardware.network.fabric.empty()) continue;
    Scenario scenario = drawn.scenario;
    scenario.parallel.ranks *= testing::draw(random, 2, 8);
    scenario.parallel.groups.clear();
    scenario.parallel.homes.clear();
    scenario.parallel.islands.clear();
    scenario.schedule.set("transport", std::string("nccl"));
    const Hardware hardware = rewired(random, drawn.machine->hardware);
    const std::string options = testing::options_of({scenario, drawn.machine});
    CAPTURE(options);
    CAPTURE(hardware.network.fabric);
    CAPTURE(hardware.network.nics);
    Plan plan;
    try {
      plan = build_plan(testing::changed(scenario));
    } catch (const ScenarioError&) {
      continue;  // the family refuses so many ranks
    }
    n += both_agree(plan, hardware, drawn.machine->cost, model_of(n));
  }
}
