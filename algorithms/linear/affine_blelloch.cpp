// Linear attention with transitions of its own for every token, by a tree: (state, transition) of the ranks
// are scanned as Brent and Kung do, then states are shifted (Blelloch 1990, section 1.4: a recurrence of
// first order is a scan of pairs). As lasp_blelloch, for maps that do not commute; T travels where a
// receiver's map will be joined once more. Rounds grow with log P, where a gather's folds grow with P.
#include "algorithms/linear/affine_scan.hpp"

namespace cplab {
namespace {

void scan_tree_of_maps(const LinearScope& s, StateScan& scan, const AffineMap& own, const Box& carry) {
  AffineScan(s, scan, brent_kung(s.P())).inclusive(scan, own);
  scan.shift(own.state, carry);
}

}  // namespace

Algorithm affine_blelloch_algorithm() {
  Algorithm a;
  a.name = "affine_blelloch";
  a.summary =
      "linear attention with transitions, (state, transition) scanned over ranks by a tree, then shifted";
  a.placements = {"contiguous", "stream"};
  a.validate = validate_affine;
  a.build = [](Builder& b) {
    const auto asks = [](const LinearScope& s, const StateScan& scan) {
      return AffineScan(s, scan, brent_kung(s.P())).asks_transition();
    };
    run_affine(b, {.scan = scan_tree_of_maps, .asks_transition = asks});
  };
  return a;
}

}  // namespace cplab
