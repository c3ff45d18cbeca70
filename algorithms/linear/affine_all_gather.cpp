// Linear attention with transitions of its own for every token (gated linear attention, KDA, gated delta
// rules): the ranks' states and transitions are gathered and folded in each (fla-org/flash-linear-attention,
// fla/ops/cp). The passes: affine.cpp.
#include <vector>

#include "algorithms/linear/affine.hpp"

namespace cplab {
namespace {

void gather_maps(const LinearScope& s, const Box& all) {
  std::vector<Box> into;
  for (int place = 0; place < s.P(); ++place) into.push_back(all.slot(place));
  s.b.all_gather(state_lane, s.transport, s.team(), all.slot(s.place()), into);
}

// Folds the states in the scan's order up to this rank. The backward has the transitions from the forward.
void gather_and_fold_maps(const LinearScope& s, StateScan& scan, const AffineMap& all, const Box& carry) {
  gather_maps(s, all.state);
  if (!scan.reverse) gather_maps(s, all.transition);
  if (!carry.given()) return;
  const auto state = [&](int index) { return all.state.slot(scan.place_of(index)); };
  for (int i = 1; i < scan.index(); ++i)
    scan.combine(state(i - 1), state(i), {i, i}, all.transition.slot(scan.place_of(i)));
  s.b.copy(linear_lane, state(scan.index() - 1), carry);
}

}  // namespace

Algorithm affine_all_gather_algorithm() {
  Algorithm a;
  a.name = "affine_all_gather";
  a.aliases = {"kcp", "fla_cp"};
  a.summary =
      "linear attention with transitions, (state, transition) of all ranks gathered and folded (FLA CP)";
  a.placements = {"contiguous", "stream"};
  a.validate = validate_affine;
  a.build = [](Builder& b) { run_affine(b, {.scan = gather_and_fold_maps, .every_rank = true}); };
  return a;
}

}  // namespace cplab
