// LASP's chain of states, but every rank computes its own state before it waits for what enters: the chain
// carries P - 1 messages and combinations, and no kernel over tokens. What of lasp_blelloch's gain is only
// this.
#include "algorithms/linear/decoupled.hpp"

namespace cplab {
namespace {

void scan_of_chain(const LinearScope& s, StateScan& scan, const Box& own, const Box& carry) {
  for (int i = 0; i + 1 < s.P(); ++i) {
    scan.hop(i, own, carry);
    if (scan.index() == i + 1 && scan.needed(i) && scan.needed(i + 1))
      scan.combine(carry, own, {i + 1, i + 1});
  }
}

}  // namespace

Algorithm lasp_ring_decoupled_algorithm() {
  Algorithm a;
  a.name = "lasp_ring_decoupled";
  a.aliases = {"ring_decoupled"};
  a.summary = "linear attention, states in a chain that waits for no kernel over tokens (LASP, decoupled)";
  a.placements = {"contiguous", "stream"};
  a.options = decoupled_options();
  a.resolve_defaults = resolve_decoupled_defaults;
  a.validate = validate_decoupled;
  a.build = [](Builder& b) { run_decoupled(b, {scan_of_chain}); };
  return a;
}

}  // namespace cplab
