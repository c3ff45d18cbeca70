// Two levels of a context-parallel group: teams of A ranks that trade heads for tokens, and teams across them
// of the ranks that hold the same heads then.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/builder.hpp"
#include "algorithms/core/distribution.hpp"

namespace cplab {

// consecutive: ranks 0 .. A-1 trade, and 0, A, 2A, ... form a ring. strided: ranks 0, P/A, 2P/A, ... trade,
// and consecutive ones form a ring.
enum class InnerOrder : std::uint8_t { consecutive, strided };

// Teams "inner" of so many ranks and "outer" across them; none where one of the levels has a single rank.
std::vector<TeamSpec> two_level_teams(std::int64_t ranks, std::int64_t inner, InnerOrder);
std::vector<TeamSpec> two_level_teams(const Scenario&, InnerOrder);  // by schedule.inner_ranks
// The most ranks of a node, by defaults::most_inner_ranks(), that divide `ranks`, and `heads` too.
std::int64_t inner_ranks_by_machine(std::int64_t ranks, std::int64_t heads);
// Throws ScenarioError unless that option divides the ranks.
void require_divided_ranks(const Scenario&, std::string_view option);

// The teams of those names that a rank is in, also where a level has a single rank.
class Grid {
 public:
  Grid(Builder&, std::int64_t inner);
  const Team& inner() const { return inner_; }
  const Team& outer() const { return outer_; }

 private:
  const Team self_;
  const Team &inner_, &outer_;
};

// By team of ranks that trade: their positions.
std::vector<std::vector<int>> inner_teams(std::int64_t ranks, std::int64_t inner, InnerOrder);

Distribution of_members(const Distribution& tokens, const std::vector<int>& positions);
// The tokens that meet in one place across the teams, by place; those of one rank in its own runs, as it has
// them without teams.
Distribution joined(const Distribution& tokens, const std::vector<std::vector<int>>& teams);

}  // namespace cplab
