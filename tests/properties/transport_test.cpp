// transport = "auto" on machines of several nodes: every plan stays right, every message takes what its ends
// allow, and an attention kernel that waits for what goes over nccl beside it makes no plan hang.
#include <doctest/doctest.h>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "plan/islands.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

// By `node` ranks a node, every message left open.
Scenario on_nodes(Scenario s, int node) {
  s.schedule.set("transport", std::string("auto"));
  s.parallel.islands = islands_of_nodes(static_cast<int>(s.parallel.world()), node);
  return s;
}

bool is_mixed(const Plan& plan) {
  return transports_of(plan).size() == 2;
}

}  // namespace

TEST_CASE("auto: check finds nothing in plans of two transports, and parts take what their ends allow") {
  int mixed = 0;
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    for (const int node : {2, 3}) {
      CAPTURE(name);
      CAPTURE(node);
      const Plan plan = build_plan(on_nodes(scenario, node));
      mixed += is_mixed(plan);
      for (const Finding& f : check(plan).findings)
        FAIL_CHECK(cplab::name(f.kind) << " rank " << f.rank << " " << f.operation << ": " << f.message);
      for (const RankPlan& rank : plan.ranks) {
        for (const Operation& op : rank.operations) {
          if (!is_communication(op.kind)) continue;
          for (const Part& part : rank.parts_of(op)) {
            const bool shared = rank.rank / node == part.peer / node;
            if (!shared) CHECK(op.transport == Transport::nccl);
            if (shared && op.kind == OpKind::exchange) CHECK(op.transport == Transport::copy);
          }
        }
      }
    }
  }
  CHECK(mixed > (testing::each_value_once() ? 50 : 100));
}

TEST_CASE("long: auto: the result of a plan of two transports is that of dense attention, in every order") {
  std::size_t number = 0;
  for (const auto& [name, scenario] : testing::all_scenarios(DType::fp64)) {
    if (++number % 3 != 0)
      continue;  // every third: the plans differ in transports alone from those of verify
    const Plan plan = build_plan(on_nodes(scenario, 2));
    if (!is_mixed(plan)) continue;
    CAPTURE(name);
    const Inputs inputs = random_inputs(scenario.problem, 7);
    for (const std::uint64_t seed : {1u, 2u}) {
      VerifyOptions options;
      options.execution.order = {true, seed};
      options.execution.keep_log = false;
      const VerifyResult result = verify(plan, inputs, options);
      for (const Finding& f : result.findings) FAIL_CHECK(f.operation << ": " << f.message);
      for (const TensorFigures& t : result.tensors) CHECK(t.rel_l2 <= 1e-12);
    }
  }
}
