// The table that drives the generic tests: for every algorithm of the registry, scenarios in which all pairs
// of choices occur.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "plan/plan.hpp"

namespace cplab::testing {

struct NamedScenario {
  std::string name;   // "ring: ranks=3, merge=fused, ...": for the message of a failing test
  Scenario scenario;  // resolved
};

// Small problems (up to about 100 tokens, up to 16 ranks) in bf16 or the given dtype: every pair of rank
// counts, option values, placements, masks, head counts, head sizes, lengths, directions and replicas that
// the algorithm accepts.
std::vector<NamedScenario> scenarios_of(const Algorithm&, DType = DType::bf16);
// Of every algorithm; under the sanitizers, which are after lines of code, every sixth of them.
std::vector<NamedScenario> all_scenarios(DType = DType::bf16);
#if defined(CPLAB_SANITIZED)
constexpr std::size_t every_nth = 6;
#else
constexpr std::size_t every_nth = 1;
#endif

}  // namespace cplab::testing
