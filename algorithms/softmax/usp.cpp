// Unified sequence parallelism: USP (Fang, Zhao 2024, arXiv 2405.07719), yunchang's LongContextAttention.
//
// The same two levels as hierarchical, with its own two choices: which ranks trade (neighbours, or ranks far
// apart so that neighbours form the ring), and that q, K and V are traded one after the other before anything
// is attended. Tokens lie as the placement says; a zigzag over all ranks is as balanced here as yunchang's
// own over the rings, because any two ranks of it share the work equally.
#include "algorithms/core/builder.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/softmax/two_level.hpp"

namespace cplab {
namespace {

InnerOrder order_of(const Schedule& s) {
  return s.find("inner_order") && s.is_word("inner_order", "strided") ? InnerOrder::strided
                                                                      : InnerOrder::consecutive;
}

}  // namespace

Algorithm usp_algorithm() {
  Algorithm a;
  a.name = "usp";
  a.summary = "all-to-all and ring over the two axes of a grid of ranks (USP, arXiv 2405.07719)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = two_level_options();
  a.options.push_back(
      word_option("inner_order", {"consecutive", "strided"},
                  "ranks that trade: neighbours (use_ulysses_low), or every (P / inner_ranks)-th"));
  a.resolve_defaults = [](Scenario& s) { resolve_two_level_defaults(s, order_of(s.schedule)); };
  a.validate = validate_two_level;
  a.build = [](Builder& b) { build_two_level(b, order_of(b.scenario().schedule), true); };
  a.teams = [](const Scenario& s) { return two_level_teams(s, order_of(s.schedule)); };
  return a;
}

}  // namespace cplab
