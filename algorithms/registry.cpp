// The list of algorithms and placements, resolution of scenarios, and plans for all ranks.
#include "algorithms/registry.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "algorithms/builder.hpp"
#include "algorithms/placement.hpp"
#include "algorithms/ring_options.hpp"

namespace cplab {
namespace {

template <class List>
std::string listed(const List& items, auto text) {
  std::string all;
  for (const auto& item : items) all += (all.empty() ? "" : ", ") + std::string(text(item));
  return all;
}

std::string quoted(const OptionValue& value) {
  return std::holds_alternative<std::string>(value) ? '"' + to_string(value) + '"' : to_string(value);
}

void resolve_schedule(const Algorithm& algorithm, Schedule& schedule) {
  for (const auto& [key, value] : schedule.options) {
    const OptionInfo* option = find_option(algorithm, key);
    if (!option) {
      throw ScenarioError("schedule." + key,
                          "algorithm \"" + std::string(algorithm.name) + "\" has no option \"" + key +
                              "\"; it has: " + listed(algorithm.options, [](auto& o) { return o.key; }));
    }
    if (!is_legal(*option, value))
      throw ScenarioError("schedule." + key,
                          quoted(value) + " is not legal; legal: " + legal_values(*option));
  }
  if (algorithm.resolve_defaults) algorithm.resolve_defaults(schedule);
  Schedule complete;  // in the order of registration
  for (const OptionInfo& option : algorithm.options) {
    const OptionValue* given = schedule.find(option.key);
    if (given) complete.set(option.key, *given);
  }
  for (const OptionInfo& option : algorithm.options) {
    if (!complete.find(option.key) && (!option.applies || option.applies(complete)))
      complete.set(option.key, option.default_value);
  }
  schedule = std::move(complete);
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

std::string legal_values(const OptionInfo& option) {
  const std::string values = listed(option.legal, quoted);
  return option.any_count ? "any integer >= " + values : values;
}

bool is_legal(const OptionInfo& option, const OptionValue& value) {
  if (option.any_count) {
    const std::int64_t* count = std::get_if<std::int64_t>(&value);
    return count && *count >= std::get<std::int64_t>(option.legal[0]) && *count <= INT32_MAX;
  }
  return std::find(option.legal.begin(), option.legal.end(), value) != option.legal.end();
}

const OptionInfo* find_option(const Algorithm& algorithm, std::string_view key) {
  for (const OptionInfo& option : algorithm.options)
    if (option.key == key) return &option;
  return nullptr;
}

std::span<const Algorithm> algorithms() {
  static const std::array<Algorithm, 1> all{ring_attention()};
  return all;
}

std::span<const PlacementInfo> placements() {
  static const std::array<PlacementInfo, 3> all{{
      {"contiguous", {}, "rank p holds the p-th of P equal pieces of every sequence"},
      {"zigzag",
       {"head-tail", "headtail", "dual-chunk"},
       "2P chunks, rank p holds chunks p and 2P-1-p: causal work is equal"},
      {"striped", {"stripe"}, "rank p holds tokens p, p + P, p + 2P, ..."},
  }};
  return all;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& a : algorithms())
    if (a.name == name || std::find(a.aliases.begin(), a.aliases.end(), name) != a.aliases.end()) return &a;
  return nullptr;
}

const PlacementInfo* find_placement(std::string_view name) {
  for (const PlacementInfo& p : placements())
    if (p.name == name || std::find(p.aliases.begin(), p.aliases.end(), name) != p.aliases.end()) return &p;
  return nullptr;
}

Scenario resolve(Scenario s) {
  const Algorithm* algorithm = find_algorithm(s.algorithm);
  if (!algorithm)
    throw ScenarioError("parallel.algorithm", "no algorithm \"" + s.algorithm + "\"; legal: " +
                                                  listed(algorithms(), [](auto& a) { return a.name; }));
  s.algorithm = algorithm->name;
  if (s.placement.empty()) s.placement = algorithm->placements.front();
  const PlacementInfo* placement = find_placement(s.placement);
  const auto& legal = algorithm->placements;
  if (!placement || std::find(legal.begin(), legal.end(), placement->name) == legal.end())
    throw ScenarioError("parallel.placement", "no placement \"" + s.placement + "\" for " + s.algorithm +
                                                  "; legal: " + listed(legal, [](auto& p) { return p; }));
  s.placement = placement->name;
  require_sizes(s.problem, s.parallel);
  check_groups(s.parallel);
  resolve_schedule(*algorithm, s.schedule);
  if (algorithm->validate) algorithm->validate(s);
  return s;
}

namespace {

RankPlan build_one(const Scenario& s, const Algorithm& algorithm, const Placement& placement,
                   std::size_t replica, std::size_t position) {
  Builder builder(s, placement, static_cast<int>(replica), static_cast<int>(position));
  algorithm.build(builder);
  return builder.finish();
}

}  // namespace

void build_group(Plan& plan, int replica, const Placement& placement) {
  const Algorithm& algorithm = *find_algorithm(plan.scenario.algorithm);
  const auto& group = plan.scenario.parallel.groups[static_cast<std::size_t>(replica)];
  for (std::size_t position = 0; position < group.size(); ++position)
    plan.ranks[static_cast<std::size_t>(group[position])] =
        build_one(plan.scenario, algorithm, placement, static_cast<std::size_t>(replica), position);
}

Plan build_plan(const Scenario& s) {
  Plan plan;
  plan.scenario = s;
  plan.ranks.resize(static_cast<std::size_t>(s.parallel.world()));
  for (std::size_t i = 0; i < s.parallel.groups.size(); ++i)
    plan.groups.push_back({"cp" + std::to_string(i), s.parallel.groups[i]});
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    const Placement placement(s.problem, s.parallel, s.placement, replica);
    plan.placement_padding_tokens += placement.padding_tokens();
    build_group(plan, replica, placement);
  }
  return plan;
}

RankPlan build_rank(const Scenario& s, int rank) {
  for (std::size_t i = 0; i < s.parallel.groups.size(); ++i) {
    const auto& group = s.parallel.groups[i];
    const auto at = std::find(group.begin(), group.end(), rank);
    if (at == group.end()) continue;
    const Placement placement(s.problem, s.parallel, s.placement, static_cast<int>(i));
    return build_one(s, *find_algorithm(s.algorithm), placement, i,
                     static_cast<std::size_t>(at - group.begin()));
  }
  throw ScenarioError("parallel.ranks", "there is no rank " + std::to_string(rank));
}

}  // namespace cplab
