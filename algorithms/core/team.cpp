// Groups in the order in which NCCL communicators are made of them: the same on every rank.
#include "algorithms/core/team.hpp"

#include <algorithm>
#include <set>
#include <stdexcept>

namespace cplab {

int Team::place_of(int position) const {
  const auto at = std::ranges::find(positions, position);
  if (at == positions.end()) throw std::logic_error("a position that is not in team " + name);
  return static_cast<int>(at - positions.begin());
}

Team alone(const Team& team) {
  const auto own = static_cast<std::size_t>(team.place);
  return {"alone", team.group, {team.positions[own]}, {team.ranks[own]}, 0};
}

std::vector<Group> groups_of(const Scenario& scenario, const std::vector<TeamSpec>& specs) {
  std::vector<Group> groups;
  const auto& replicas = scenario.parallel.groups;
  for (std::size_t r = 0; r < replicas.size(); ++r) groups.push_back({"cp" + std::to_string(r), replicas[r]});
  for (std::size_t r = 0; r < replicas.size(); ++r) {
    for (const TeamSpec& spec : specs) {
      std::set<int> seen;
      for (std::size_t i = 0; i < spec.members.size(); ++i) {
        Group group{"cp" + std::to_string(r) + "/" + spec.name + std::to_string(i), {}};
        for (const int position : spec.members[i]) {
          if (position < 0 || position >= static_cast<int>(replicas[r].size()) ||
              !seen.insert(position).second)
            throw std::logic_error("team " + group.name +
                                   " has a member that does not exist or is in two teams");
          group.ranks.push_back(replicas[r][static_cast<std::size_t>(position)]);
        }
        groups.push_back(std::move(group));
      }
    }
  }
  return groups;
}

std::vector<Team> teams_of(const Scenario& scenario, const std::vector<TeamSpec>& specs, int replica,
                           int position) {
  const auto& replicas = scenario.parallel.groups;
  const std::vector<int>& ranks = replicas[static_cast<std::size_t>(replica)];
  Team all{"all", static_cast<std::uint16_t>(replica), {}, ranks, position};
  for (int i = 0; i < static_cast<int>(ranks.size()); ++i) all.positions.push_back(i);
  std::vector<Team> teams{all};
  std::size_t of_one_replica = 0;
  for (const TeamSpec& spec : specs) of_one_replica += spec.members.size();
  std::size_t group = replicas.size() + static_cast<std::size_t>(replica) * of_one_replica;
  for (const TeamSpec& spec : specs) {
    for (const std::vector<int>& members : spec.members) {
      const auto own = std::find(members.begin(), members.end(), position);
      if (own != members.end()) {
        Team& team = teams.emplace_back(Team{spec.name,
                                             static_cast<std::uint16_t>(group),
                                             members,
                                             {},
                                             static_cast<int>(own - members.begin())});
        for (const int member : members) team.ranks.push_back(ranks[static_cast<std::size_t>(member)]);
      }
      ++group;
    }
  }
  return teams;
}

}  // namespace cplab
