// Ring attention: Liu, Zaharia, Abbeel 2023 (arXiv 2310.01889), in the form of TransformerEngine's
// AttnFuncWithCPAndKVP2P with the O(1) memory of its PR 2916. The passes, which hierarchical and usp run too:
// ring_attention.cpp.
#include "algorithms/common_options.hpp"
#include "algorithms/ring_attention.hpp"

namespace cplab {
namespace {

void resolve_defaults(Scenario& s) {
  std::vector<Distribution> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica)
    rings.push_back(placed(s, replica));
  resolve_ring_defaults(s, rings);
  // Two ranks with long rows: once the tile of the other's keys is done, the memory of K and V that were
  // received is free, if none is needed for the own ones, and half of the next tile's gradients fits there.
  // That half is added to what the other rank has sent meanwhile; in longer rings a slow link would be waited
  // for in every step, and the own K and V save no slot.
  constexpr std::int64_t long_rows = 8192;
  Schedule& o = s.schedule;
  const OptionValue* between = o.find("between");
  if (!s.problem.has_backward() || s.parallel.ranks != 2 || rings[0][0].rows() < long_rows ||
      (between && *between == option_word("layers")))
    return;
  if (!o.find("own_kv")) o.set("own_kv", std::string("keep"));
  if (!o.find("dkv_tile_heads")) o.set("dkv_tile_heads", (s.problem.kv_heads + 1) / 2);
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
  a.options.push_back(own_kv_option());
  a.resolve_defaults = resolve_defaults;
  a.validate = validate;
  a.build = build;
  return a;
}

}  // namespace cplab
