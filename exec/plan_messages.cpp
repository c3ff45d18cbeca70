// Matches the parts of a plan; see plan_messages.hpp.
#include "exec/plan_messages.hpp"

#include <algorithm>

#include "exec/bind.hpp"

namespace cplab {

namespace {

PlanMessage message_of(const Plan& plan, const Match& match) {
  const RankPlan& from = plan.ranks[match.sender.rank];
  const RankPlan& into = plan.ranks[match.receiver.rank];
  const View& source = from.views[from.parts[match.send_part].view];
  const View& target = into.views[into.parts[match.receive_part].view];
  require_fitting({from, from.operations[match.sender.operation], source},
                  {into, into.operations[match.receiver.operation], target});
  const DType nominal = plan.scenario.problem.dtype;
  std::vector<std::vector<Piece>> ends{contiguous_pieces(from, source, nominal),
                                       contiguous_pieces(into, target, nominal)};
  cut_alike(ends);
  return {match, std::move(ends[0]), std::move(ends[1])};
}

}  // namespace

std::deque<PlanMessage> plan_messages(const Plan& plan) {
  std::deque<PlanMessage> messages;
  Walk walk(plan);
  std::vector<OpRef> ready, members;
  std::vector<Match> matched;
  walk.begin(ready);
  while (!ready.empty()) {
    const OpRef ref = ready.back();
    ready.pop_back();
    const Operation& op = plan.ranks[ref.rank].operations[ref.operation];
    if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      members.clear();
      if (!walk.meet(ref, members)) continue;
      for (const OpRef member : members) walk.complete(member, ready);
      continue;
    }
    if (!is_communication(op.kind) || op.parts.count == 0) {
      walk.complete(ref, ready);
      continue;
    }
    matched.clear();
    walk.post(ref, matched);
    for (const Match& found : matched) {
      messages.push_back(message_of(plan, found));
      if (walk.part_done(found.sender)) walk.complete(found.sender, ready);
      if (walk.part_done(found.receiver)) walk.complete(found.receiver, ready);
    }
  }
  return messages;
}

std::vector<std::vector<PostedParts>> posted_parts(const Plan& plan,
                                                   const std::deque<PlanMessage>& messages) {
  std::vector<std::vector<PostedParts>> posted;
  for (const RankPlan& rank : plan.ranks) posted.emplace_back(rank.operations.size());
  for (std::uint32_t m = 0; m < messages.size(); ++m) {
    const Match& match = messages[m].match;
    posted[match.sender.rank][match.sender.operation].sends.push_back(m);
    posted[match.receiver.rank][match.receiver.operation].receives.push_back(m);
  }
  for (auto& rank : posted) {
    for (PostedParts& parts : rank) {
      std::sort(parts.sends.begin(), parts.sends.end(), [&](std::uint32_t a, std::uint32_t b) {
        return messages[a].match.send_part < messages[b].match.send_part;
      });
      std::sort(parts.receives.begin(), parts.receives.end(), [&](std::uint32_t a, std::uint32_t b) {
        return messages[a].match.receive_part < messages[b].match.receive_part;
      });
    }
  }
  return posted;
}

}  // namespace cplab
