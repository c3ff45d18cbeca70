// Hierarchical attention: all-to-all inside, ring outside (TransformerEngine's a2a+p2p; LoongTrain, arXiv
// 2406.18485).
//
// Neighbouring ranks, joined by fast links, trade heads for tokens; then ranks of the same heads run a ring
// over the slow links with the tokens of a whole team in one place. Forward the results are traded back;
// backward dout goes in, the ring runs, and dq, dK and dV go out. With a zigzag placement a team's chunks
// join to those of a zigzag over the teams. Of linear attention it is states that go from team to team
// (linear/two_level_states.hpp).
#include "algorithms/linear/two_level_states.hpp"
#include "algorithms/softmax/two_level.hpp"

namespace cplab {

Algorithm hierarchical_algorithm() {
  constexpr InnerOrder order = InnerOrder::consecutive;
  Algorithm a;
  a.name = "hierarchical";
  a.aliases = {"a2a+p2p"};
  a.summary = "all-to-all inside teams of ranks, ring across them (TransformerEngine a2a+p2p)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.linear_placements = {"contiguous"};  // a team's tokens follow each other
  a.options = two_level_options();
  for (OptionInfo& option : a.options)
    if (option.key != "pack_above" && option.key != "inner_ranks")
      option.serves = {is_softmax_problem, "softmax attention"};
  for (const OptionInfo& option : two_level_state_options()) a.options.push_back(option);
  a.resolve_defaults = [](Scenario& s) {
    is_softmax_problem(s.problem) ? resolve_two_level_defaults(s, order)
                                  : resolve_two_level_state_defaults(s);
  };
  a.validate = [](const Scenario& s) {
    is_softmax_problem(s.problem) ? validate_two_level(s) : validate_two_level_states(s);
  };
  a.build = [](Builder& b) {
    is_softmax_problem(b.problem()) ? build_two_level(b, order, false) : build_two_level_states(b);
  };
  a.teams = [](const Scenario& s) { return two_level_teams(s, order); };
  return a;
}

}  // namespace cplab
