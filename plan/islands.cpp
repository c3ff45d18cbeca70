// Islands of ranks and the transport between them; see islands.hpp.
#include "plan/islands.hpp"

#include <algorithm>
#include <array>

namespace cplab {

std::vector<int> islands_of(int world, const std::function<bool(int a, int b)>& reaches) {
  std::vector<std::vector<int>> members;
  std::vector<int> islands;
  for (int rank = 0; rank < world; ++rank) {
    const auto island = std::find_if(members.begin(), members.end(), [&](const std::vector<int>& others) {
      return std::all_of(others.begin(), others.end(),
                         [&](int other) { return reaches(rank, other) && reaches(other, rank); });
    });
    islands.push_back(static_cast<int>(island - members.begin()));
    if (island == members.end())
      members.push_back({rank});
    else
      island->push_back(rank);
  }
  return islands;
}

std::vector<int> islands_of_nodes(int world, int node) {
  std::vector<int> islands;
  for (int rank = 0; rank < world; ++rank) islands.push_back(rank / node);
  return islands;
}

bool share_island(const Parallel& parallel, int a, int b) {
  const std::vector<int>& islands = parallel.islands;
  const auto last = static_cast<std::size_t>(std::max(a, b));
  return a == b || last >= islands.size() ||
         islands[static_cast<std::size_t>(a)] == islands[static_cast<std::size_t>(b)];
}

bool mixes_transports(const Parallel& parallel) {
  std::vector<int> sorted = parallel.islands;
  std::sort(sorted.begin(), sorted.end());
  const bool shared = std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end();
  return shared && sorted.front() != sorted.back();
}

Transport transport_within(const Parallel& parallel, OpKind kind, std::span<const int> ranks) {
  const bool sums = kind == OpKind::reduce_scatter || kind == OpKind::all_reduce;
  if (sums && ranks.size() > static_cast<std::size_t>(most_summed_by_copy)) return Transport::nccl;
  const bool one_island = std::all_of(ranks.begin(), ranks.end(),
                                      [&](int rank) { return share_island(parallel, ranks.front(), rank); });
  return one_island ? Transport::copy : Transport::nccl;
}

std::vector<TransportUse> transports_of(const Plan& plan) {
  std::array<TransportUse, 2> uses{TransportUse{Transport::nccl}, TransportUse{Transport::copy}};
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind)) continue;
      TransportUse& use = uses[static_cast<std::size_t>(op.transport)];
      ++use.operations;
      if (op.kind == OpKind::all_reduce) use.bytes += op.bytes;
      for (const Part& part : rank.parts_of(op)) {
        if (!part.send || part.peer == rank.rank) continue;
        ++use.messages;
        use.bytes += view_bytes(rank, rank.views[part.view], plan.scenario.problem.dtype);
      }
    }
  }
  std::vector<TransportUse> used;
  for (const TransportUse& use : uses)
    if (use.operations > 0) used.push_back(use);
  return used;
}

}  // namespace cplab
