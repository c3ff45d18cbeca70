// Plans of all ranks, or of one: a builder for each, and the algorithm that tells it what its rank does.
#include "algorithms/build.hpp"

#include <algorithm>
#include <string>

#include "algorithms/builder.hpp"
#include "algorithms/list.hpp"
#include "algorithms/placement.hpp"

namespace cplab {
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
