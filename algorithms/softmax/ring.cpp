// Ring attention: Liu, Zaharia, Abbeel 2023 (arXiv 2310.01889), in the form of TransformerEngine's
// AttnFuncWithCPAndKVP2P with the O(1) memory of its PR 2916. The passes, which hierarchical and usp run too:
// ring_attention.cpp.
#include "algorithms/core/defaults.hpp"
#include "algorithms/core/options.hpp"
#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {
namespace {

// Two ranks have two partial results. The first is the running out, and where the kernel merges the second
// into it, it may be rounded in the second's place: as many roundings, and no pass over out but the kernels'.
void merge_two(Schedule& s) {
  if (s.find("merge") || s.find("out_slots")) return;
  s.set("merge", std::string("fused"));
  if (!s.find("out_accumulator") && !s.find("accumulator")) s.set("out_accumulator", std::string("nominal"));
}

// The other rank's part of dK and dV is complete when it is sent, and may be rounded then: the own tile adds
// to it in fp32, and rounds the sum. In parts, because the own tile needs what comes.
void sum_two(Schedule& s) {
  if (s.find("dkv_tile_heads")) return;
  s.set("gradient_sum", std::string("fused"));
  if (!s.find("gradient_wire_dtype")) s.set("gradient_wire_dtype", std::string("nominal"));
  if (!s.find("parts")) s.set("parts", defaults::ring_parts());
}

void resolve_defaults(Scenario& s) {
  std::vector<Distribution> rings;
  for (int replica = 0; replica < static_cast<int>(s.parallel.replicas); ++replica)
    rings.push_back(placed(s, replica));
  Schedule& o = s.schedule;
  if (defaults::ring_merges_in_kernel(s.parallel.ranks)) merge_two(o);
  const bool follows_at_once = s.problem.has_backward() && !o.is_word("between", "layers");
  if (follows_at_once && defaults::ring_saves_slots(s.parallel.ranks, rings[0][0].rows())) {
    if (!o.find("own_kv")) o.set("own_kv", std::string("keep"));
    // Of grouped heads the kernel adds up query heads in that dtype too: with 17 to a key head the
    // backward took four times as long. Their K and V are small anyway.
    const bool grouped = s.problem.heads != s.problem.kv_heads;
    if (!o.find("gradient_sum") && !o.is_word("tile_inputs", "copy") && !grouped) sum_two(o);
    if (!o.is_word("gradient_sum", "fused") && !o.find("dkv_tile_heads"))
      o.set("dkv_tile_heads", (s.problem.kv_heads + 1) / 2);
  }
  resolve_ring_defaults(s, rings);
}

void validate_ring(const Scenario& s) {
  require_softmax(s);
  validate_ring_options(s.schedule);
}

void build_ring(Builder& b) {
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
  a.placements = {"zigzag", "contiguous", "striped", "hybrid"};
  a.dynamic_masks = true;
  a.options = whole_ring_option_infos();
  a.resolve_defaults = resolve_defaults;
  a.validate = validate_ring;
  a.build = build_ring;
  return a;
}

}  // namespace cplab
