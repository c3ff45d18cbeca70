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
      for (const Part& part : rank.parts_of(op)) {
        const int into = device_of(part.peer);
        if (!part.send || into < 0 || into == from) continue;
        const auto [pair, is_new] = known.try_emplace({from, into});
        if (is_new) pair->second = can_access(from, into);
        if (pair->second) continue;
        throw GpuError("rank " + std::to_string(rank.rank) + ", operation " + operation_id(rank, op) +
                       " sends to rank " + std::to_string(part.peer) + " over the link copy, but GPU " +
                       std::to_string(from) + " has no peer access to GPU " + std::to_string(into) +
                       "; schedule.transport=nccl does without");
      }
    }
  }
}

}  // namespace cplab
