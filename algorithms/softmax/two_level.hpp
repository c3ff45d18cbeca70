// Two levels: ranks trade heads for tokens in teams of A, and a ring runs across the teams, with the tokens
// of a team joined and an A-th of the heads in every place. hierarchical and usp are of this form.
#pragma once

#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/builder.hpp"
#include "algorithms/core/grid.hpp"

namespace cplab {

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
