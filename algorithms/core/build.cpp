// Plans of all ranks, or of one: a builder for each, and the algorithm that tells it what its rank does.
#include "algorithms/core/build.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/builder.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/placement.hpp"

namespace cplab {
namespace {

std::vector<TeamSpec> teams_specified(const Scenario& s, const Algorithm& algorithm) {
  std::vector<TeamSpec> specs = algorithm.teams ? algorithm.teams(s) : std::vector<TeamSpec>();
  if (!s.problem.convolves()) return specs;
  // Rows beside pieces go from rank to rank in a group of their own, in whatever order with the algorithm's
  // messages.
  TeamSpec halo{std::string(halo_team), {{}}};
  for (int position = 0; position < static_cast<int>(s.parallel.ranks); ++position)
    halo.members[0].push_back(position);
  specs.push_back(std::move(halo));
  return specs;
}

RankPlan build_one(const Scenario& s, const Algorithm& algorithm, const std::vector<TeamSpec>& teams,
                   const Placement& placement, Shared& shared, int replica, int position) {
  Builder builder(s, placement, shared, replica, position, teams_of(s, teams, replica, position));
  algorithm.build(builder);
  return builder.finish();
}

void build_group_with(Plan& plan, const Algorithm& algorithm, int replica, const Placement& placement) {
  const auto& group = plan.scenario.parallel.groups[static_cast<std::size_t>(replica)];
  const std::vector<TeamSpec> teams = teams_specified(plan.scenario, algorithm);
  Shared shared;
  for (int position = 0; position < static_cast<int>(group.size()); ++position)
    plan.ranks[static_cast<std::size_t>(group[static_cast<std::size_t>(position)])] =
        build_one(plan.scenario, algorithm, teams, placement, shared, replica, position);
}

}  // namespace

void build_group(Plan& plan, int replica, const Placement& placement) {
  build_group_with(plan, *find_algorithm(plan.scenario.algorithm), replica, placement);
}

Plan build_plan(const Scenario& s) {
  return build_plan(s, *find_algorithm(s.algorithm));
}

Plan build_plan(const Scenario& s, const Algorithm& algorithm) {
  Plan plan;
  plan.scenario = s;
  plan.ranks.resize(static_cast<std::size_t>(s.parallel.world()));
  plan.groups = groups_of(s, teams_specified(s, algorithm));
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica) {
    const Placement placement(s.problem, s.parallel, s.placement, replica);
    plan.placement_padding_tokens += placement.padding_tokens();
    build_group_with(plan, algorithm, replica, placement);
  }
  return plan;
}

RankPlan build_rank(const Scenario& s, int rank) {
  for (std::size_t i = 0; i < s.parallel.groups.size(); ++i) {
    const auto& group = s.parallel.groups[i];
    const auto at = std::find(group.begin(), group.end(), rank);
    if (at == group.end()) continue;
    const Placement placement(s.problem, s.parallel, s.placement, static_cast<int>(i));
    const Algorithm& algorithm = *find_algorithm(s.algorithm);
    Shared shared;
    return build_one(s, algorithm, teams_specified(s, algorithm), placement, shared, static_cast<int>(i),
                     static_cast<int>(at - group.begin()));
  }
  throw ScenarioError("parallel.ranks", "there is no rank " + std::to_string(rank));
}

}  // namespace cplab
