// Two levels: ranks trade heads for tokens in teams of A, and a ring runs across the teams, with the tokens
// of a team joined and an A-th of the heads in every place. hierarchical and usp are of this form.
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

Distribution of_members(const Distribution& tokens, const std::vector<int>& positions);

// `one_by_one`: q, K and V are traded one after the other, and nothing runs beside that.
void build_two_level(Builder&, InnerOrder, bool one_by_one);

// What an algorithm registers, without a name, that runs rings in nodes of node_ranks neighbours, and in
// teams "outer" across them.
Algorithm algorithm_of_node_rings(void (*build)(Builder&));

// The options of both: the ring's, pack_above and inner_ranks.
std::vector<OptionInfo> two_level_options();
void resolve_two_level_defaults(Scenario&, InnerOrder);
void validate_two_level(const Scenario&);

}  // namespace cplab
