// Ring attention: Liu, Zaharia, Abbeel 2023 (arXiv 2310.01889), in the form of TransformerEngine's
// AttnFuncWithCPAndKVP2P with the O(1) memory of its PR 2916.
//
// Every member keeps its queries, and K and V travel around the ring. Forward, a member attends the K and V
// that it holds while the next ones come, and merges the results. Backward, they travel again, and their
// gradients follow one visit behind, until all members have added to them and they are home. The loops are
// here; what hops and tiles are made of is in ring_attention.cpp, the options are in ring_options.cpp.
#include "algorithms/core/algorithm.hpp"
#include "algorithms/softmax/ring_attention.hpp"

namespace cplab {

void RingAttention::forward(const Forward& given) {
  const Forward f = with_what_travels(given);
  begin_forward(f);
  for (int i = 0; i < forward_visits(); ++i) forward_visit(f, i);
  end_forward();
}

void RingAttention::forward_visit(const Forward& f, int i) {
  const TileOfVisit& of = work[static_cast<std::size_t>(i)];
  receive_beside(i);
  b.step(of.visit);
  if (i == 0 || !of.tile->empty()) attend(f, of);
}

void RingAttention::backward(const Backward& given) {
  const Backward g = with_what_travels(given);
  begin_backward(g);
  for (int v = 0; v < backward_visits(); ++v) backward_visit(g, v);
  end_backward(g);
}

void RingAttention::backward_visit(const Backward& g, int v) {
  b.step(v);
  if (v < back.visits()) post_hops(v);
  if (adds_in_kernels()) return exchange(), add_in_kernels(g, v);
  if (v > 0) append_sums(g, v - 1);
  exchange();
  if (v == back.visits()) return;
  if (works(back.owner(v))) differentiate(g, v, sum_at(g, v));
  if (back.owner(v) == s.place() && back.visits() > 1 && back.one_chain()) take_own(g, sum_at(g, v), v);
}

Algorithm ring_algorithm() {
  Algorithm a;
  a.name = "ring";
  a.aliases = {"p2p"};
  a.summary = "K and V travel around the ring (Liu et al. 2023, arXiv 2310.01889; TransformerEngine P2P)";
  a.placements = {"zigzag", "contiguous", "striped", "stream", "hybrid", "balanced", "dynamic"};
  a.dynamic_masks = true;
  a.options = whole_ring_option_infos();
  a.resolve_defaults = resolve_whole_ring_defaults;
  a.validate = validate_plain_rings;
  a.build = [](Builder& b) {
    const Scope whole(b);
    run_ring(whole, RingAttention(whole, ring_options(b.scenario().schedule)));
  };
  return a;
}

}  // namespace cplab
