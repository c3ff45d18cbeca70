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

void RingAttention::forward(const Forward& f) {
  const std::vector<TileOfVisit> work = forward_tiles();
  SoftmaxSum sum(s, o.sum, f.out, f.lse, query_rows(work), f.sink);
  const std::vector<Box> kv = forward_slots(f.kv);  // by visit
  // What a tile needs travels beside the tile before it, and is posted ahead of that.
  std::size_t posted = 1;
  for (std::size_t i = 0; i < work.size(); ++i) {
    for (; posted < work.size() && posted <= i + 1; ++posted) receive_keys(work[posted], kv);
    b.step(work[i].visit);
    if (i == 0 || !work[i].tile->empty()) attend(f, work[i], kv, sum);
  }
  held = kv.back();
  sum.finish(compute(0));
}

void RingAttention::backward(const Backward& g) {
  begin_backward(g);
  if (adds_in_kernels()) return add_in_kernels(g);
  const int visits = back.visits();
  Box sums;
  if (visits > 1) sums = s.dkv_buffer("dkv_slots", o.gradient_wire, Category::working, 2, s.rows);
  const Box home = home_of(g);
  Rows back_home;
  for (int v = 0; v <= visits; ++v) {
    b.step(v);
    const Box next = next_keys(g, v), before = visits > 1 ? sums.slot(v % 2) : Box();
    const Box sum = visits > 1 ? sums.slot((v + 1) % 2) : g.dkv;
    std::vector<Message> messages;
    append_hop(messages, next, v);
    if (v > 0 && v < visits) {
      messages.push_back(send(before.rows(back.leaving(v - 1)), back.next(v - 1)));
      messages.push_back(receive(sum.rows(back.arrived(v)), back.previous(v)));
    }
    if (v > 0) append_homecoming(messages, before, home, v - 1, back_home);
    exchange(messages);
    if (v == visits) break;
    if (works(back.owner(v))) differentiate(g, v, sum);
    if (visits > 1 && back.owner(v) == s.place()) take_own(g, sum, v);
    held = next;
  }
  take_home(g, home, back_home);
}

Algorithm ring_algorithm() {
  Algorithm a;
  a.name = "ring";
  a.aliases = {"p2p"};
  a.summary = "K and V travel around the ring (Liu et al. 2023, arXiv 2310.01889; TransformerEngine P2P)";
  a.placements = {"zigzag", "contiguous", "striped", "hybrid"};
  a.dynamic_masks = true;
  a.options = whole_ring_option_infos();
  a.resolve_defaults = resolve_whole_ring_defaults;
  a.validate = [](const Scenario& scenario) {
    require_softmax(scenario);
    validate_ring_options(scenario.schedule);
  };
  a.build = [](Builder& b) {
    const Scope whole(b);
    RingAttention ring(whole, ring_options(b.scenario().schedule));
    WithQuerySum with_sum(whole, ring);
    run_whole(whole, with_sum);
  };
  return a;
}

}  // namespace cplab
