// Peer access of GPUs; see peer_access.hpp.
#include "exec/gpu/peer_access.hpp"

#include <map>
#include <string>
#include <utility>

#include "exec/gpu/error.hpp"

namespace cplab {

void require_peer_access(const Plan& plan, const std::function<int(int)>& device_of,
                         const std::function<bool(int, int)>& can_access) {
  std::map<std::pair<int, int>, bool> known;
  for (const RankPlan& rank : plan.ranks) {
    const int from = device_of(rank.rank);
    if (from < 0) continue;
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind) || op.transport != Transport::copy) continue;
      const auto require = [&](int peer, const char* does) {
        const int into = device_of(peer);
        if (into < 0 || into == from) return;
        const auto [pair, is_new] = known.try_emplace({from, into});
        if (is_new) pair->second = can_access(from, into);
        if (pair->second) return;
        throw GpuError("rank " + std::to_string(rank.rank) + ", operation " + operation_id(rank, op) + does +
                       std::to_string(peer) + " over the link copy, but GPU " + std::to_string(from) +
                       " has no peer access to GPU " + std::to_string(into) +
                       "; schedule.transport=nccl does without");
      };
      // Whoever receives sums reads what the members give; a share of an all_reduce is read and written.
      const bool scatters = op.kind == OpKind::reduce_scatter;
      for (const Part& part : rank.parts_of(op))
        if (part.send != scatters)
          require(part.peer, scatters ? " sums what it receives from rank " : " sends to rank ");
      if (op.kind != OpKind::all_reduce) continue;
      for (const int peer : plan.groups[op.group].ranks) require(peer, " sums with rank ");
    }
  }
}

}  // namespace cplab
