// See draw_options.hpp.
#include "tests/grid/draw_options.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "tests/scenarios/any_scenario.hpp"

namespace cplab::testing {

Scenario draw_options(Scenario scenario, const Algorithm& algorithm, std::uint64_t number) {
  constexpr std::array<std::string_view, 3> first{"merge", "kv_slots", "tile_inputs"};
  std::vector<const OptionInfo*> order;
  for (const std::string_view key : first)
    if (const OptionInfo* option = find_option(algorithm, key)) order.push_back(option);
  const std::size_t always_set = order.size();
  for (const OptionInfo& option : algorithm.options)
    if (std::ranges::count(first, option.key) == 0) order.push_back(&option);
  scenario.algorithm = algorithm.name;
  for (std::size_t i = 0; i < order.size(); ++i) {
    std::vector<OptionValue> legal = order[i]->legal;
    if (order[i]->any_count)  // also the next two
      for (const std::int64_t more : {1, 2}) legal.emplace_back(std::get<std::int64_t>(legal[0]) + more);
    const std::size_t none = i < always_set ? 0 : 1;
    const std::size_t digit = number % (legal.size() + none);
    number /= legal.size() + none;
    if (digit < none) continue;
    Scenario with = scenario;
    with.schedule.set(order[i]->key, legal[digit - none]);
    try {
      resolve_with_heads(with);
      scenario = with;
    } catch (const ScenarioError&) {
      continue;
    }
  }
  return resolve_with_heads(scenario);
}

std::string_view draw_placement(const Algorithm& algorithm, std::uint64_t number) {
  return algorithm.placements[number == 0 ? 0 : number - 1];
}

}  // namespace cplab::testing
