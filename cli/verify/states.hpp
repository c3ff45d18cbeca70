// Which states of linear attention the ranks' buffers hold: those that cross the edges of their tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/verify/tensors.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Of every sequence the edges at which states are compared, ascending. Edge p lies before token p.
using StateEdges = std::vector<std::vector<std::int64_t>>;

struct EdgeState {
  std::int64_t sequence = 0;  // index into Problem::lengths
  std::int64_t edge = 0;      // 0 .. its length
};

// An output of a rank that is no tensor of the problem: n states, D rows each, H heads, E columns.
struct StateBuffer {
  std::string_view tensor;    // its name in results: state, dstate, state_last, dstate_first
  std::string_view buffer;    // carry, dcarry, state_last, dstate_first
  std::string_view expected;  // state (of keys) or dstate (of queries)
  std::vector<EdgeState> states;
};

// carry: what enters at the left edge of the rank's tokens, dcarry: at the right one; state_last: what
// leaves at the right edge, dstate_first: at the left one. Of those that are outputs of the rank. In
// placement stream one state, of the sequence that crosses the edge; else one of every sequence of which the
// placement gives rows to the rank.
std::vector<StateBuffer> state_buffers(const Plan& plan, const RankPlan& rank);

StateEdges state_edges(const Plan& plan);

// The rows of a state buffer as rows of the expected states [edges,H,D,E] of their sequences: `position` is
// so that (position E) + head (D E) + column is the element.
std::vector<LocalRow> state_rows(const Problem& problem, const StateBuffer& buffer, const StateEdges& edges);

}  // namespace cplab
