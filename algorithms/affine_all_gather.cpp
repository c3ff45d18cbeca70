// Linear attention with transitions of its own for every token (gated linear attention, KDA, gated delta
// rules): the ranks' states and transitions are gathered and folded in each (fla-org/flash-linear-attention,
// fla/ops/cp). The passes: affine.cpp.
#include "algorithms/affine.hpp"

namespace cplab {

Algorithm affine_all_gather_algorithm() {
  Algorithm a;
  a.name = "affine_all_gather";
  a.aliases = {"kcp", "fla_cp"};
  a.summary =
      "linear attention with transitions, (state, transition) of all ranks gathered and folded (FLA CP)";
  a.placements = {"contiguous", "stream"};
  a.validate = [](const Scenario& s) { require_linear(s, {Transition::column, Transition::matrix}); };
  a.build = run_affine_gather;
  return a;
}

}  // namespace cplab
