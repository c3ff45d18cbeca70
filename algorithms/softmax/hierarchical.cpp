// Hierarchical attention: all-to-all inside, ring outside (TransformerEngine's a2a+p2p; LoongTrain, arXiv
// 2406.18485).
//
// Neighbouring ranks, joined by fast links, trade heads for tokens; then ranks of the same heads run a ring
// over the slow links with the tokens of a whole team in one place. Forward the results are traded back;
// backward dout goes in, the ring runs, and dq, dK and dV go out. With a zigzag placement a team's chunks
// join to those of a zigzag over the teams.
#include "algorithms/softmax/two_level.hpp"

namespace cplab {

Algorithm hierarchical_algorithm() {
  constexpr InnerOrder order = InnerOrder::consecutive;
  Algorithm a;
  a.name = "hierarchical";
  a.aliases = {"a2a+p2p"};
  a.summary = "all-to-all inside teams of ranks, ring across them (TransformerEngine a2a+p2p)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = two_level_options();
  a.resolve_defaults = [](Scenario& s) { resolve_two_level_defaults(s, order); };
  a.validate = validate_two_level;
  a.build = [](Builder& b) { build_two_level(b, order, false); };
  a.teams = [](const Scenario& s) { return two_level_teams(s, order); };
  return a;
}

}  // namespace cplab
