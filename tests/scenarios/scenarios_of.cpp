// See scenarios_of.hpp.
#include "tests/scenarios/scenarios_of.hpp"

#include <cstdlib>
#include <map>

#include "algorithms/core/list.hpp"
#include "tests/scenarios/choices.hpp"

namespace cplab::testing {

bool each_value_once() {
  return std::getenv("CPLAB_EACH_VALUE_ONCE") != nullptr;
}

std::vector<NamedScenario> scenarios_of(const Algorithm& algorithm, DType dtype) {
  std::vector<Dimension> dimensions{ranks_dimension({1, 2, 3, 4, 5, 8})};
  for (Dimension& d : option_dimensions(algorithm, true)) dimensions.push_back(std::move(d));
  for (Dimension& d : std::vector<Dimension>{
           placement_dimension(algorithm), mask_dimension(), heads_dimension({"8:2", "4:4", "2:1", "3:3"}),
           size_dimension({"8", "6/10"}), length_dimension(1), direction_dimension(), replica_dimension(),
           pair_mask_dimension(algorithm), max_logit_dimension(), transition_dimension(algorithm),
           keys_dimension(algorithm)})
    dimensions.push_back(std::move(d));
  static std::map<std::string, std::vector<Case>> cases;  // the same for every dtype
  std::vector<Case>& own = cases[std::string(algorithm.name)];
  if (own.empty()) own = cases_of(algorithm, dimensions, each_value_once() ? 1 : 2);
  std::vector<NamedScenario> scenarios;
  for (const Case& values : own) {
    Scenario s = scenario_of(algorithm, dimensions, values);
    s.problem.dtype = dtype;
    scenarios.push_back({std::string(algorithm.name) + ": " + describe(dimensions, values), std::move(s)});
  }
  return scenarios;
}

std::vector<NamedScenario> all_scenarios(DType dtype) {
  std::vector<NamedScenario> all;
  for (const Algorithm& algorithm : algorithms())
    for (NamedScenario& s : scenarios_of(algorithm, dtype)) all.push_back(std::move(s));
  return all;
}

}  // namespace cplab::testing
