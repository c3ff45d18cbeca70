// LASP with a tree: the scan of states by Brent and Kung, then a shift (petrpan26/LASP, lasp_blelloch.py and
// blelloch_ops.py; S1). Up-sweep, down-sweep and shift are right for every number of ranks: the exponent of a
// combination is what the receiver's partial covers, and the shift of a suffix goes from right to left.
//
// inter = "apart", overlap = false are the source's own kernels in their order: diagonal blocks, chunk
// states, scan in the rank, scan over ranks, off-diagonal blocks.
#include "algorithms/linear/decoupled.hpp"

namespace cplab {
namespace {

void scan_of_tree(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  scan.inclusive(brent_kung(s.P()), own);
  scan.shift(own, carry);
}

}  // namespace

Algorithm lasp_blelloch_algorithm() {
  Algorithm a;
  a.name = "lasp_blelloch";
  a.aliases = {"blelloch"};
  a.summary = "linear attention, states scanned over ranks by a tree, then shifted (LASP pull request, S1)";
  a.placements = {"contiguous", "stream"};
  a.options = decoupled_options();
  a.resolve_defaults = resolve_decoupled_defaults;
  a.validate = validate_decoupled;
  a.build = [](Builder& b) { run_decoupled(b, {scan_of_tree, true}); };
  return a;
}

}  // namespace cplab
