// The table itself: what the other files go through is all of the registry and not less.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "algorithms/core/list.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

TEST_CASE("every algorithm has scenarios with each of its placements and option values") {
  for (const Algorithm& algorithm : algorithms()) {
    CAPTURE(algorithm.name);
    const auto scenarios = testing::scenarios_of(algorithm);
    std::set<std::string> placements, directions;
    std::set<std::int64_t> ranks;
    for (const auto& [name, s] : scenarios) {
      placements.insert(s.placement);
      directions.insert(std::string(cplab::name(s.problem.direction)));
      ranks.insert(s.parallel.ranks);
      CHECK(s.algorithm == algorithm.name);
    }
    CHECK(placements.size() == algorithm.placements.size());
    CHECK(directions.size() == 3);
    CHECK(ranks.size() >= 3);
    for (const OptionInfo& option : algorithm.options) {
      for (const OptionValue& value : option.legal) {
        INFO(option.key << " = " << to_string(value));
        CHECK(std::ranges::any_of(scenarios, [&](const testing::NamedScenario& s) {
          const OptionValue* chosen = s.scenario.schedule.find(option.key);
          return chosen && *chosen == value;
        }));
      }
    }
  }
}
