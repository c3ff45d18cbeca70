// Teams: ordered sub-groups of a context-parallel group, and the index of each member.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "plan/plan.hpp"

namespace cplab {

// A team, as one of its members sees it.
struct Team {
  std::string name;
  std::uint16_t group = 0;     // index into Plan::groups
  std::vector<int> positions;  // of its members in the context-parallel group, in order
  std::vector<int> ranks;      // the same as global ranks
  int place = 0;               // the member's own index in both
  int size() const { return static_cast<int>(positions.size()); }
  int place_of(int position) const;  // a member's index; throws std::logic_error for others
};

// One member of a team by itself: a team that never communicates.
Team alone(const Team&);

// All groups of a scenario: the context-parallel groups by replica, then every team of `specs` for every
// replica, named "cp0/inner1". Throws std::logic_error for members that are no positions, or come twice.
std::vector<Group> groups_of(const Scenario&, const std::vector<TeamSpec>& specs);

// The teams that a rank is in, the whole context-parallel group ("all") first.
std::vector<Team> teams_of(const Scenario&, const std::vector<TeamSpec>& specs, int replica, int position);

}  // namespace cplab
