// Teams of two levels; see grid.hpp.
#include "algorithms/core/grid.hpp"

#include <algorithm>
#include <string>

#include "algorithms/core/defaults.hpp"

namespace cplab {

std::vector<std::vector<int>> inner_teams(std::int64_t ranks, std::int64_t inner, InnerOrder order) {
  const std::int64_t outer = ranks / inner;
  std::vector<std::vector<int>> teams(static_cast<std::size_t>(outer));
  for (std::int64_t team = 0; team < outer; ++team)
    for (std::int64_t i = 0; i < inner; ++i)
      teams[static_cast<std::size_t>(team)].push_back(
          static_cast<int>(order == InnerOrder::consecutive ? team * inner + i : i * outer + team));
  return teams;
}

Distribution of_members(const Distribution& tokens, const std::vector<int>& positions) {
  Distribution some;
  for (const int position : positions) some.members.push_back(tokens[position]);
  return some;
}

Grid::Grid(Builder& b, std::int64_t inner)
    : self_(alone(b.everyone())),
      inner_(inner == 1       ? self_
             : inner == b.P() ? b.everyone()
                              : b.team("inner")),
      outer_(inner == 1       ? b.everyone()
             : inner == b.P() ? self_
                              : b.team("outer")) {}

std::vector<TeamSpec> two_level_teams(const Scenario& s, InnerOrder order) {
  return two_level_teams(s.parallel.ranks, s.schedule.count("inner_ranks"), order);
}

std::vector<TeamSpec> two_level_teams(std::int64_t P, std::int64_t A, InnerOrder order) {
  if (A == 1 || A == P) return {};
  TeamSpec inner{"inner", inner_teams(P, A, order)}, outer{"outer", {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(A); ++i) {
    std::vector<int>& ring = outer.members.emplace_back();
    for (const std::vector<int>& team : inner.members) ring.push_back(team[i]);
  }
  return {inner, outer};
}

Distribution joined(const Distribution& tokens, const std::vector<std::vector<int>>& teams) {
  Distribution ring;
  for (const std::vector<int>& team : teams)
    ring.members.push_back(team.size() == 1 ? tokens[team[0]]
                                            : in_sequence_order(gathered(of_members(tokens, team)))[0]);
  return ring;
}

std::int64_t inner_ranks_by_machine(std::int64_t ranks, std::int64_t heads) {
  std::int64_t most = 1;
  for (std::int64_t inner = 1; inner <= std::min(ranks, defaults::most_inner_ranks()); ++inner)
    if (ranks % inner == 0 && heads % inner == 0) most = inner;
  return most;
}

void require_divided_ranks(const Scenario& s, std::string_view option) {
  const std::int64_t P = s.parallel.ranks, A = s.schedule.count(option);
  if (P % A != 0)
    throw ScenarioError("schedule." + std::string(option),
                        std::to_string(A) + " does not divide parallel.ranks (" + std::to_string(P) + ")");
}

}  // namespace cplab
