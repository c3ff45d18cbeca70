// The table that drives the generic tests: for every algorithm of the registry, scenarios in which all pairs
// of choices occur.
#pragma once

#include <string>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "plan/plan.hpp"

namespace cplab::testing {

struct NamedScenario {
  std::string name;   // "ring: ranks=3, merge=fused, ...": for the message of a failing test
  Scenario scenario;  // resolved
};

// CI leaves values that meet to grid and to the tests of `make test` and `make nightly`, and the sanitizers
// are after lines of code: both say so in the environment, by CPLAB_EACH_VALUE_ONCE (CMakePresets.json).
bool each_value_once();

// Small problems (up to about 100 tokens, up to 16 ranks) in bf16 or the given dtype: every pair of rank
// counts, option values, placements, masks, head counts, head sizes, lengths, directions and replicas that
// the algorithm accepts; with each_value_once() every value once.
std::vector<NamedScenario> scenarios_of(const Algorithm&, DType = DType::bf16);
std::vector<NamedScenario> all_scenarios(DType = DType::bf16);  // of every algorithm

}  // namespace cplab::testing
