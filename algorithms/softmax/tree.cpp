// Tree attention: Shyam et al. 2024 (arXiv 2408.04093), for decoding: few queries, keys on all ranks.
//
// Queries go to every rank on a tree: in the first round one rank further, then two, four, ... Each attends
// them with its own keys, and the partial results come back on the same tree, merged wherever branches meet:
// in 2 log2(P) rounds, of any P. Backward, dout, lse and delta go out too, and shares of dq come back.
#include "algorithms/softmax/tree.hpp"

namespace cplab {

void Tree::spread(const std::vector<Box>& own, const std::vector<Box>& all) {
  for (std::size_t i = 0; i < own.size(); ++i)
    if (s.rows > 0) b.copy(compute_lane, own[i], all[i].first_rows(s.rows));
  for (int distance = 1; distance < s.P(); distance *= 2) {
    std::vector<Message> messages;
    for (const Box& each : all) {
      messages.push_back(send(each.rows(blocks(0, hop(distance))), to_right(distance)));
      messages.push_back(receive(each.rows(blocks(distance, distance + hop(distance))), to_left(distance)));
    }
    exchange(messages);
  }
}

void Tree::reduce(const std::vector<Box>& all, const std::vector<Box>& came,
                  const std::function<void(const Rows&)>& join) {
  for (int distance = longest(); distance >= 1; distance /= 2) {
    const Rows met = blocks(0, hop(distance));
    std::vector<Message> messages;
    for (std::size_t i = 0; i < all.size(); ++i) {
      messages.push_back(send(all[i].rows(blocks(distance, distance + hop(distance))), to_left(distance)));
      if (!met.empty()) messages.push_back(receive(came[i].first_rows(met.count()), to_right(distance)));
    }
    exchange(messages);
    if (!met.empty()) join(met);
  }
}

Algorithm tree_algorithm() {
  Algorithm a = algorithm_of_few_queries([](Builder& b) { build_tree(b, false); });
  a.name = "tree";
  a.aliases = {"tree_attention"};
  a.summary =
      "queries go to all ranks and partial results come back on a tree (arXiv 2408.04093); for decode";
  return a;
}

}  // namespace cplab
