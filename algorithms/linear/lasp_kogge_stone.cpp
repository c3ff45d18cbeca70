// The exclusive scan of Kogge and Stone over the ranks' states, shifted first: as few rounds as there can be,
// with P log P messages (spec: 1 + ceil(log2(P - 1)) rounds). A baseline for lasp_blelloch.
#include "algorithms/linear/decoupled.hpp"

namespace cplab {
namespace {

// The shift of the raw states makes an ordinary inclusive scan of what was shifted the exclusive one.
void scan_shifted(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  scan.shift(own, carry);
  scan.inclusive(kogge_stone(s.P() - 1), carry, 1);
}

}  // namespace

Algorithm lasp_kogge_stone_algorithm() {
  Algorithm a;
  a.name = "lasp_kogge_stone";
  a.aliases = {"kogge_stone"};
  a.summary = "linear attention, states shifted, then scanned in log2(P - 1) rounds (Kogge, Stone 1973)";
  a.placements = {"contiguous", "stream"};
  a.options = decoupled_options();
  a.resolve_defaults = resolve_decoupled_defaults;
  a.validate = validate_decoupled;
  a.build = [](Builder& b) { run_decoupled(b, {scan_shifted}); };
  return a;
}

}  // namespace cplab
