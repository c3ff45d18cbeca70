// Mutations of what is one of each row or each head: sinks, and gradients that are sums over ranks.
#include <algorithm>
#include <vector>

#include "algorithms/faults/mutations.hpp"
#include "derive/edges.hpp"

namespace cplab::mutations {

// Every rank computes its tiles as it would without context parallelism.
void sink_on_every_tile(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    const Access* sink = nullptr;
    for (const Operation& op : rank.operations)
      if (op.kind == OpKind::attend && !sink) sink = rank.find(op, Operand::sink);
    if (!sink) continue;
    const Access added = *sink;
    const View of_all = rank.views[added.view];
    for (Operation& op : rank.operations) {
      if (op.kind != OpKind::attend || rank.find(op, Operand::sink)) continue;
      if (op.segments.count == 0) continue;  // it sees no key, and counts no sink
      View view = of_all;
      view.head_begin = op.head_begin, view.head_end = op.head_end;
      std::vector<Access> reads(rank.reads(op).begin(), rank.reads(op).end());
      reads.push_back({add_view(rank, view), added.mode, Operand::sink});
      op.reads = add_accesses(rank, reads);
      found = true;
    }
    derive_edges(rank);
  }
  if (!found) no_place("sink-on-every-tile", "a sink, and rows with more than one tile (a ring)");
}

void sink_gradient_of_rank(Plan& plan) {
  bool found = false;
  for (RankPlan& rank : plan.ranks) {
    for (std::size_t i = rank.operations.size(); i-- > 0;) {
      const Operation& op = rank.operations[i];
      if (op.kind != OpKind::all_reduce) continue;
      const Buffer& buffer = rank.buffers[rank.view_of(op, Operand::into).buffer];
      if (buffer.name != "dsink") continue;
      remove_operation(rank, i);
      found = true;
      break;
    }
  }
  if (!found) no_place("sink-gradient-of-rank", "a gradient of sinks that is summed over ranks");
}

}  // namespace cplab::mutations
