// Ring attention: Liu, Zaharia, Abbeel 2023 (arXiv 2310.01889), in the form of TransformerEngine's
// AttnFuncWithCPAndKVP2P with the O(1) memory of its PR 2916. The passes, which hierarchical and usp run too:
// ring_attention.cpp.
#include "algorithms/ring_attention.hpp"

namespace cplab {
namespace {

void resolve_defaults(Scenario& s) {
  std::vector<Distribution> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica)
    rings.push_back(placed(s, replica));
  resolve_ring_defaults(s, rings);
}

void validate(const Scenario& s) {
  require_softmax(s);
  validate_ring_options(s.schedule);
}

void build(Builder& b) {
  const Scope whole(b);
  RingAttention ring(whole, ring_options(b.scenario().schedule));
  WithQuerySum with_sum(whole, ring);
  run_whole(whole, with_sum);
}

}  // namespace

Algorithm ring_algorithm() {
  Algorithm a;
  a.name = "ring";
  a.aliases = {"p2p"};
  a.summary = "K and V travel around the ring (Liu et al. 2023, arXiv 2310.01889; TransformerEngine P2P)";
  a.placements = {"zigzag", "contiguous", "striped"};
  a.options = ring_option_infos();
  a.resolve_defaults = resolve_defaults;
  a.validate = validate;
  a.build = build;
  return a;
}

}  // namespace cplab
