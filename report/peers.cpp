// Peers of communications, as readiness and matching pair them; see peers.hpp.
#include "report/peers.hpp"

#include <algorithm>

#include "derive/walk.hpp"

namespace cplab {

std::vector<std::vector<double>> peers_came_s(const Plan& plan, const Timeline& timeline) {
  std::vector<std::vector<double>> came;
  for (const RankPlan& rank : plan.ranks) came.emplace_back(rank.operations.size(), 0.0);
  const auto come = [&](OpRef waiting, OpRef peer) {
    double& at = came[waiting.rank][waiting.operation];
    at = std::max(at, timeline.ranks[peer.rank][peer.operation].start_s);
  };
  Walk walk(plan);
  std::vector<OpRef> ready, members;
  std::vector<Match> matched;
  walk.begin(ready);
  while (!ready.empty()) {
    const OpRef ref = ready.back();
    ready.pop_back();
    const Operation& op = plan.ranks[ref.rank].operations[ref.operation];
    if (is_communication(op.kind)) come(ref, ref);
    if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      members.clear();
      if (!walk.meet(ref, members)) continue;
      OpRef last = members.front();
      for (const OpRef member : members)
        if (timeline.ranks[member.rank][member.operation].start_s >
            timeline.ranks[last.rank][last.operation].start_s)
          last = member;
      for (const OpRef member : members) come(member, last);
      for (const OpRef member : members) walk.complete(member, ready);
      continue;
    }
    if (!is_communication(op.kind) || op.parts.count == 0) {
      walk.complete(ref, ready);
      continue;
    }
    matched.clear();
    walk.post(ref, matched);
    walk.started(ref, ready);
    for (const Match& match : matched) {
      come(match.sender, match.receiver);
      come(match.receiver, match.sender);
      if (walk.part_done(match.sender)) walk.complete(match.sender, ready);
      if (walk.part_done(match.receiver)) walk.complete(match.receiver, ready);
    }
  }
  return came;
}

}  // namespace cplab
