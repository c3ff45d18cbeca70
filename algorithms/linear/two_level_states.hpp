// Linear attention on two levels: in teams of A neighbours ranks trade heads for tokens, and the states of a
// team's tokens, of an A-th of the heads, go from team to team in a chain. One team is all_to_all; teams of
// one rank are a chain of states over all ranks.
#pragma once

#include <vector>

#include "algorithms/core/algorithm.hpp"

namespace cplab {

class Builder;

// chunk, backward_states, state_wire_dtype: of problems with slopes.
std::vector<OptionInfo> two_level_state_options();
// Of these and of inner_ranks.
void resolve_two_level_state_defaults(Scenario&);
void validate_two_level_states(const Scenario&);
void build_two_level_states(Builder&);

}  // namespace cplab
