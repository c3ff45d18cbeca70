// Resolution of scenarios: names, groups, options.
#include "algorithms/core/resolve.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/homes.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/pieces.hpp"

namespace cplab {
namespace {

template <class List>
std::string listed(const List& items, auto text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ", ") + std::string(text(item));
  return all;
}

void resolve_schedule(const Algorithm& algorithm, Scenario& s) {
  Schedule& schedule = s.schedule;
  for (const auto& [key, value] : schedule.options) {
    const OptionInfo* option = find_option(algorithm, key);
    if (!option) {
      throw ScenarioError("schedule." + key,
                          "algorithm \"" + std::string(algorithm.name) + "\" has no option \"" + key +
                              "\"; it has: " + listed(algorithm.options, [](auto& o) { return o.key; }));
    }
    if (!option->is_for(s.problem))
      throw ScenarioError("schedule." + key, "is an option of " + std::string(option->serves.words) +
                                                 " alone, which this problem is not; leave it out");
    if (!is_legal(*option, value))
      throw ScenarioError("schedule." + key,
                          quoted(value) + " is not legal; legal: " + legal_values(*option));
  }
  if (algorithm.resolve_defaults) algorithm.resolve_defaults(s);
  Schedule complete;  // in the order of registration
  for (const OptionInfo& option : algorithm.options) {
    const OptionValue* given = schedule.find(option.key);
    if (given) complete.set(option.key, *given);
  }
  for (const OptionInfo& option : algorithm.options) {
    const bool has_value = option.is_for(s.problem) && (!option.applies || option.applies(complete));
    if (has_value && !complete.find(option.key)) complete.set(option.key, option.default_value);
  }
  schedule = std::move(complete);
}

std::string names_of(bool Algorithm::*can) {
  std::string names;
  for (const Algorithm& each : algorithms())
    if (each.*can) names += (names.empty() ? "" : ", ") + std::string(each.name);
  return names;
}

void check_cross(const Scenario& s, const Algorithm& algorithm) {
  if (!s.problem.is_cross()) return;
  if (s.parallel.keys_everywhere && s.placement == "striped")
    throw ScenarioError(
        "parallel.placement",
        "\"striped\" takes every P-th query, beside keys that every rank holds one after the other; "
        "legal with kv_placement = \"replicated\": the other placements");
  if (s.parallel.keys_everywhere && !algorithm.keys_everywhere)
    throw ScenarioError("parallel.kv_placement", s.algorithm + " has no keys that every rank holds; legal: " +
                                                     "\"same\", or with \"replicated\" the algorithms " +
                                                     names_of(&Algorithm::keys_everywhere));
}

void check_groups(Parallel& parallel) {
  const auto P = static_cast<std::size_t>(parallel.ranks), R = static_cast<std::size_t>(parallel.replicas);
  if (parallel.groups.empty()) {
    for (std::size_t i = 0; i < R; ++i) {
      auto& group = parallel.groups.emplace_back();
      for (std::size_t k = 0; k < P; ++k) group.push_back(static_cast<int>(i * P + k));
    }
  }
  std::vector<char> seen(P * R, 0);
  bool fine = parallel.groups.size() == R;
  for (const auto& group : parallel.groups) {
    fine = fine && group.size() == P;
    for (const int rank : group) {
      fine = fine && rank >= 0 && static_cast<std::size_t>(rank) < P * R &&
             !seen[static_cast<std::size_t>(rank)];
      if (fine) seen[static_cast<std::size_t>(rank)] = 1;
    }
  }
  if (!fine)
    throw ScenarioError("parallel.groups",
                        "must list replicas groups of ranks members each, every rank of 0 .. " +
                            std::to_string(P * R - 1) + " exactly once");
}

}  // namespace

Scenario resolve(Scenario s) {
  const Algorithm* algorithm = find_algorithm(s.algorithm);
  if (!algorithm)
    throw ScenarioError("parallel.algorithm", "no algorithm \"" + s.algorithm + "\"; legal: " +
                                                  listed(algorithms(), [](auto& a) { return a.name; }));
  s.algorithm = algorithm->name;
  const auto& legal = placements_for(*algorithm, s.problem);
  if (s.placement.empty()) s.placement = legal.front();
  const PlacementInfo* placement = find_placement(s.placement);
  if (!placement || std::find(legal.begin(), legal.end(), placement->name) == legal.end())
    throw ScenarioError("parallel.placement",
                        "no placement \"" + s.placement + "\" for " + s.algorithm +
                            (&legal == &algorithm->placements ? "" : " and linear attention") +
                            "; legal: " + listed(legal, [](auto& p) { return p; }));
  s.placement = placement->name;
  require_sizes(s.problem, s.parallel);
  check_groups(s.parallel);
  check_cross(s, *algorithm);
  resolve_homes(s);
  resolve_pieces(s);
  resolve_schedule(*algorithm, s);
  if (algorithm->validate) algorithm->validate(s);
  return s;
}

}  // namespace cplab
