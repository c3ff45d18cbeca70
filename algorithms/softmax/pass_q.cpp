// Ring pass-Q: Yang et al. 2024, "Context Parallelism for Scalable Million-Token Inference" (arXiv
// 2411.01783); backward the queries' side travels as in BurstAttention (arXiv 2403.09347).
//
// Results that go home while queries travel on are TokenRing's (arXiv 2412.20501), too.
//
// Queries travel around the ring and meet the K and V of every rank; what they get there goes home beside the
// tile after it, and is merged into what they have. Backward, they travel again with dout, lse and delta; dK
// and dV stay, and shares of dq go home. Worth it where queries are few, or many share a key head.
#include "algorithms/softmax/pass_q.hpp"

namespace cplab {

void PassQ::forward(const Forward& f) {
  std::vector<Carried> of_queries{carried(f.q)};
  if (f.bias.given()) of_queries.push_back(carried(f.bias));
  const Returned out = returned(f.out, Role::nominal), lse = returned(f.lse, Role::wide);
  sum.emplace(s, SoftmaxSumOptions{.merge = MergeKind::fused, .wide = o.wide}, f.out, f.lse,
              std::vector<std::int64_t>(static_cast<std::size_t>(visits()), s.rows), f.sink);
  for (int v = 0; v < visits() + 2; ++v) {
    b.step(v);
    exchange(v, of_queries, {out, lse});
    if (v < visits()) attend(f, v, of_queries, out, lse);
    if (v > 2) sum->merge(compute_lane, received(out, v - 2), received(lse, v - 2), home(v - 2).q_rows);
  }
  sum->finish(compute_lane);
}

void PassQ::backward(const Backward& g) {
  delta_by_first_tile(b, g, false);
  std::vector<Carried> of_queries{carried(g.q), carried(g.dout), carried(g.lse), carried(g.delta)};
  std::vector<Returned> shares{returned(g.dq, o.gradient_wire)};
  std::vector<Box> sums{g.dq};
  if (g.bias.given()) {  // each of its numbers comes from one rank: the shares of others are 0
    of_queries.push_back(carried(g.bias));
    shares.push_back(returned(g.dbias, Role::nominal));
    sums.push_back(g.dbias);
  }
  const Box dkv = sum_of(g.dkv);
  for (int v = 0; v < visits() + 2; ++v) {
    b.step(v);
    exchange(v, of_queries, shares);
    if (v < visits()) differentiate(g, v, of_queries, shares, dkv);
    for (std::size_t i = 0; i < shares.size() && v > 2; ++i)
      add(received(shares[i], v - 2), sums[i].rows(home(v - 2).q_rows));
  }
  if (dkv.view().buffer != g.dkv.view().buffer) b.convert(compute_lane, dkv, g.dkv);
}

Algorithm pass_q_algorithm() {
  Algorithm a;
  a.name = "pass_q";
  a.aliases = {"pass-q", "burst_attention", "token_ring"};
  a.summary = "queries travel around the ring, their partial results come home (pass-Q, arXiv 2411.01783)";
  a.placements = {"zigzag", "contiguous", "striped", "hybrid"};
  a.options = pass_q_option_infos();
  a.validate = require_softmax;
  a.build = [](Builder& b) {
    const Scope whole(b);
    PassQ ring(whole, whole.keys, ring_route(whole.P()), pass_q_options(b.scenario().schedule));
    run_summed(whole, ring);
  };
  return a;
}

}  // namespace cplab
