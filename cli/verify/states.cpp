// Edges of ranks; see states.hpp. From the rows that tensors.hpp says each rank holds, not from what the
// algorithms make of them.
#include "cli/verify/states.hpp"

#include <algorithm>
#include <array>

namespace cplab {
namespace {

// Consecutive rows of one sequence on a rank: its tokens are [begin, begin + tokens).
struct Piece {
  std::int64_t sequence = 0, begin = 0, tokens = 0;
};

std::vector<Piece> pieces_of(const Scenario& scenario, const RankPlan& rank) {
  std::vector<Piece> pieces;
  for (const LocalRun& run : local_runs(scenario, rank.replica, rank.position)) {
    if (pieces.empty() || pieces.back().sequence != run.sequence)
      pieces.push_back({run.sequence, run.position, 0});
    const std::int64_t length = scenario.problem.lengths[static_cast<std::size_t>(run.sequence)];
    const std::int64_t before_end = (length - run.position + run.step - 1) / run.step;
    pieces.back().tokens += std::clamp<std::int64_t>(before_end, 0, run.count);
  }
  for (Piece& piece : pieces)  // rows behind the last token lie at its edge
    piece.begin = std::min(piece.begin, scenario.problem.lengths[static_cast<std::size_t>(piece.sequence)]);
  return pieces;
}

std::vector<EdgeState> states_at(const Scenario& scenario, const RankPlan& rank, bool right) {
  std::vector<Piece> pieces = pieces_of(scenario, rank);
  if (scenario.placement == "stream") {
    std::erase_if(pieces, [](const Piece& piece) { return piece.tokens == 0; });
    if (pieces.empty()) return {};
    pieces = {right ? pieces.back() : pieces.front()};
  }
  std::vector<EdgeState> states;
  for (const Piece& piece : pieces)
    states.push_back({piece.sequence, right ? piece.begin + piece.tokens : piece.begin});
  return states;
}

}  // namespace

std::vector<StateBuffer> state_buffers(const Plan& plan, const RankPlan& rank) {
  struct Kind {
    StateBuffer buffer;
    bool right;
  };
  static const std::array<Kind, 4> kinds{{{{"state", "carry", "state", {}}, false},
                                          {{"dstate", "dcarry", "dstate", {}}, true},
                                          {{"state_last", "state_last", "state", {}}, true},
                                          {{"dstate_first", "dstate_first", "dstate", {}}, false}}};
  std::vector<StateBuffer> found;
  if (plan.scenario.problem.attention != Attention::linear) return found;
  for (const Kind& kind : kinds) {
    // A forward has no states of queries: an output that is called so is none of the problem's.
    if (kind.buffer.expected == "dstate" && !plan.scenario.problem.has_backward()) continue;
    const auto is_output = [&](const Buffer& b) {
      return b.name == kind.buffer.buffer && b.category == Category::output;
    };
    if (std::ranges::none_of(rank.buffers, is_output)) continue;
    found.push_back(kind.buffer);
    found.back().states = states_at(plan.scenario, rank, kind.right);
  }
  return found;
}

StateEdges state_edges(const Plan& plan) {
  StateEdges edges(plan.scenario.problem.lengths.size());
  for (const RankPlan& rank : plan.ranks)
    for (const StateBuffer& buffer : state_buffers(plan, rank))
      for (const EdgeState& state : buffer.states)
        edges[static_cast<std::size_t>(state.sequence)].push_back(state.edge);
  for (std::vector<std::int64_t>& of_sequence : edges) {
    std::ranges::sort(of_sequence);
    of_sequence.erase(std::ranges::unique(of_sequence).begin(), of_sequence.end());
  }
  return edges;
}

std::vector<LocalRow> state_rows(const Problem& p, const StateBuffer& buffer, const StateEdges& edges) {
  std::vector<LocalRow> rows;
  for (const EdgeState& state : buffer.states) {
    const std::vector<std::int64_t>& of_sequence = edges[static_cast<std::size_t>(state.sequence)];
    const auto place = std::ranges::lower_bound(of_sequence, state.edge) - of_sequence.begin();
    for (std::int64_t d = 0; d < p.head_size; ++d)
      rows.push_back({state.sequence, place * p.heads * p.head_size + d, -1, true});
  }
  return rows;
}

}  // namespace cplab
