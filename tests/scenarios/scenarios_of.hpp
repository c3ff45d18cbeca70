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

// The sanitizers are after lines of code, not after values that meet, and slow: their run says so in the
// environment, by CPLAB_SHORT_TESTS (CMakePresets.json).
bool short_tests();

// Small problems (up to about 100 tokens, up to 16 ranks) in bf16 or the given dtype: every pair of rank
// counts, option values, placements, masks, head counts, head sizes, lengths, directions and replicas that
// the algorithm accepts; in short tests every value once.
std::vector<NamedScenario> scenarios_of(const Algorithm&, DType = DType::bf16);
std::vector<NamedScenario> all_scenarios(DType = DType::bf16);  // of every algorithm

}  // namespace cplab::testing
