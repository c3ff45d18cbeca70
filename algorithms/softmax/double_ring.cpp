// Double ring attention: LoongTrain (Gu et al. 2024, arXiv 2406.18485), BurstEngine (arXiv 2509.19836).
//
// Ranks of a node pass K and V around among themselves, an inner ring; meanwhile those of the next node come
// over the slow links, each from the rank of the same place in the node before, an outer ring. A slow hop has
// as long as a node has tiles. Backward, the sum of a node's gradients ends where its K and V came in, and
// goes home from there; the own node's rows come last, beside the last of those hops.
#include "algorithms/softmax/ring_attention.hpp"
#include "algorithms/softmax/two_level.hpp"

namespace cplab {
namespace {

Route forward_route(int ranks, int inner) {
  std::vector<Visit> visits{{}};
  for (int now = 1; now < ranks; ++now) {
    const bool comes_in = now % inner == 0;
    const int source = comes_in ? now - inner : now - 1;
    visits.push_back({.shift = now, .source = source, .beside = source, .lane = comes_in ? 1 : 0});
  }
  return {ranks, inner, std::move(visits)};
}

Route backward_route(int ranks, int inner) {
  std::vector<Visit> visits{{.home = true}};
  for (int node = inner; node < ranks; node += inner) {
    // Of the rows of that node those that come in are attended last, after they have been around.
    for (int i = 1; i < inner; ++i) {
      const int now = node - inner + i;
      visits.push_back({.shift = node + i, .source = i == 1 ? node : now - 1, .beside = now - 1});
    }
    const int beside = node == inner ? 0 : node - 2 * inner + 1;
    visits.push_back({.shift = node, .source = node - inner, .beside = beside, .lane = 1, .home = true});
  }
  for (int i = 1; i < inner; ++i) {
    const int now = ranks - inner + i;
    visits.push_back({.shift = i, .source = i == 1 ? 0 : now - 1, .beside = now - 1, .home = i + 1 == inner});
  }
  return {ranks, inner, std::move(visits)};
}

}  // namespace

Algorithm double_ring_algorithm() {
  Algorithm a = algorithm_of_node_rings([](Builder& b) {
    const Scope whole(b);
    const RingOptions options = ring_options(b.scenario().schedule);
    const int P = b.P(), inner = static_cast<int>(b.scenario().schedule.count("node_ranks"));
    if (inner == 1 || inner == P) return run_ring(whole, RingAttention(whole, options));
    run_ring(whole, RingAttention(whole, options, forward_route(P, inner), backward_route(P, inner),
                                  &b.team("outer")));
  });
  a.name = "double_ring";
  a.aliases = {"loongtrain", "burst_engine"};
  a.summary = "a ring in each node, and beside it one across nodes (LoongTrain, arXiv 2406.18485)";
  return a;
}

}  // namespace cplab
