// See scenarios_of.hpp.
#include "tests/scenarios/scenarios_of.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <utility>

#include "algorithms/core/list.hpp"
#include "tests/scenarios/any_scenario.hpp"
#include "tests/scenarios/choices.hpp"

namespace cplab::testing {

bool each_value_once() {
  return std::getenv("CPLAB_EACH_VALUE_ONCE") != nullptr;
}

namespace {

// Of the algorithm's own kind of attention, or that with latent keys and values; or of linear attention,
// which it computes beside that, with slopes or with gates: options are of the one or of the other.
enum class Part : std::uint8_t { own, latents, slopes, gates };

Part part_of(const Value& pair_mask) {
  if (pair_mask.name == "latents") return Part::latents;
  if (!pair_mask.name.starts_with("linear")) return Part::own;
  return pair_mask.name == "linear decay" ? Part::slopes : Part::gates;
}

std::vector<Dimension> dimensions_of(const Algorithm& algorithm, Part part) {
  const bool linear_too = part == Part::slopes || part == Part::gates;
  const Attention attention = linear_too ? Attention::linear : attention_of(std::string(algorithm.name));
  Dimension pair_mask = pair_mask_dimension(algorithm);
  std::erase_if(pair_mask.values, [&](const Value& value) { return part_of(value) != part; });
  std::vector<Dimension> dimensions{ranks_dimension({1, 2, 3, 4, 5, 8})};
  for (Dimension& d : option_dimensions(algorithm, true, attention, part == Part::latents))
    dimensions.push_back(std::move(d));
  for (Dimension& d :
       std::vector<Dimension>{placement_dimension(algorithm), mask_dimension(),
                              heads_dimension({"8:2", "4:4", "2:1", "3:3"}), size_dimension({"8", "6/10"}),
                              length_dimension(1), direction_dimension(), replica_dimension(), pair_mask})
    dimensions.push_back(std::move(d));
  if (part == Part::own)
    for (Dimension& d : std::vector<Dimension>{max_logit_dimension(), transition_dimension(algorithm),
                                               keys_dimension(algorithm)})
      dimensions.push_back(std::move(d));
  if (attention == Attention::linear) dimensions.push_back(convolution_dimension());
  return dimensions;
}

}  // namespace

std::vector<NamedScenario> scenarios_of(const Algorithm& algorithm, DType dtype) {
  static std::map<std::pair<std::string, Part>, std::vector<Case>> cases;  // the same for every dtype
  std::vector<NamedScenario> scenarios;
  for (const Part part : {Part::own, Part::latents, Part::slopes, Part::gates}) {
    const std::vector<Dimension> dimensions = dimensions_of(algorithm, part);
    if (std::ranges::any_of(dimensions, [](const Dimension& d) { return d.values.empty(); })) continue;
    std::vector<Case>& own = cases[{std::string(algorithm.name), part}];
    if (own.empty()) own = cases_of(algorithm, dimensions, each_value_once() ? 1 : 2);
    for (const Case& values : own) {
      Scenario s = scenario_of(algorithm, dimensions, values);
      s.problem.dtype = dtype;
      scenarios.push_back({std::string(algorithm.name) + ": " + describe(dimensions, values), std::move(s)});
    }
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
