// Helix parallelism's attention (arXiv 2507.07120; decode context parallelism of vLLM and SGLang): keys of
// all heads lie cut over the ranks, as context parallelism cuts them, and results are made by heads, as
// tensor parallelism cuts those.
//
// Queries go to every rank and are attended with its keys as in tree.cpp. Then each rank takes a share of the
// heads: in one exchange all give it their partial results of these, it merges them, and in another one every
// query's heads come home. Two rounds instead of log2(P), of P times the messages.
#include "algorithms/softmax/tree.hpp"

namespace cplab {

void Tree::merge_by_heads(const Forward& f, const Box& out, const Box& lse) {
  const HeadRange own = share(s.place());
  const Rows all_rows = blocks(0, s.P());
  const Box out_came = of_share(out, "out_came", s.P() - 1), lse_came = of_share(lse, "lse_came", s.P() - 1);
  std::vector<Message> messages;
  const auto trade = [&](int member, const Box& partial, const Box& came) {
    if (share(member).count() > 0)
      messages.push_back(send(partial.of_problem(share(member)).rows(in_order_of(member)), member));
    if (came.given()) messages.push_back(receive(came.slot(other(member)), member));
  };
  for (int d = 1; d < s.P(); ++d) trade(to_right(d), out, out_came), trade(to_right(d), lse, lse_came);
  exchange(messages);
  for (int member = 0; member < s.P() && out_came.given(); ++member)
    if (member != s.place())
      b.merge(compute_lane, out_came.slot(other(member)), lse_came.slot(other(member)),
              out.of_problem(own).rows(all_rows), lse.of_problem(own).rows(all_rows));
  messages.clear();
  const Box home = own_rows(out, "out_home");
  for (int d = 1; d < s.P(); ++d) {
    const int right = to_right(d);
    const Rows theirs = blocks(s.P() - d, s.P() - d + 1), here = has_tokens ? first_block() : Rows();
    for (const auto& [merged, into] : {std::pair(out, home), std::pair(lse, f.lse)}) {
      if (own.count() > 0) messages.push_back(send(merged.of_problem(own).rows(theirs), right));
      if (share(right).count() > 0)
        messages.push_back(receive(into.of_problem(share(right)).rows(here), right));
    }
  }
  exchange(messages);
  bring_home(out, home, lse, f);
}

Algorithm helix_algorithm() {
  Algorithm a = algorithm_of_few_queries([](Builder& b) { build_tree(b, true); });
  a.name = "helix";
  a.aliases = {"dcp", "decode_context_parallel"};
  a.summary = "as tree, but partial results are merged by heads in two exchanges (Helix, arXiv 2507.07120)";
  return a;
}

}  // namespace cplab
