// Linear attention of a rank that has traded heads for tokens: it holds whole sequences of its share of the
// heads, so that no state comes from another rank. Slopes: chunks and their states (decoupled.hpp); gates and
// delta rules: token by token (affine.hpp).
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/core/algorithm.hpp"

namespace cplab {

class Builder;

// Linear attention that decays by slopes.
bool has_slopes(const Problem&);

// chunk, backward_states: of problems with slopes.
std::vector<OptionInfo> whole_sequence_options();
// `members`: how many share the heads.
void resolve_whole_sequence_defaults(Scenario&, std::int64_t members);
void validate_whole_sequences(const Scenario&, std::int64_t members);

// The whole group trades; in a group of one nothing is traded.
void build_traded_sequences(Builder&);

}  // namespace cplab
