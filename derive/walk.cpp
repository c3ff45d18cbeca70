// Readiness and matching; see walk.hpp.
#include "derive/walk.hpp"

#include <algorithm>

namespace cplab {
namespace {

std::uint64_t channel(std::uint16_t group, std::uint32_t sender, std::uint32_t receiver) {
  return (std::uint64_t{group} << 48) | (std::uint64_t{sender} << 24) | receiver;
}

}  // namespace

Walk::Walk(const Plan& plan, bool phases_apart) : plan_(plan), ranks_(plan.ranks.size()) {
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    const RankPlan& rank = plan.ranks[r];
    RankState& state = ranks_[r];
    std::vector<Lane> lanes;
    state.lane_of.reserve(rank.operations.size());
    state.place_in_lane.reserve(rank.operations.size());
    for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
      const Operation& op = rank.operations[i];
      const auto at =
          static_cast<std::size_t>(std::find(lanes.begin(), lanes.end(), op.lane) - lanes.begin());
      if (at == lanes.size()) {
        lanes.push_back(op.lane);
        state.lanes.emplace_back();
      }
      state.lane_of.push_back(static_cast<std::uint16_t>(at));
      state.place_in_lane.push_back(static_cast<std::uint32_t>(state.lanes[at].queue.size()));
      state.lanes[at].queue.push_back(i);
      if (op.kind == OpKind::host_sync) state.host_syncs.push_back(i);
      if (op.after_started.count > 0) state.started.resize(rank.operations.size());
      if (phases_apart && op.phase == Phase::forward) ++forward_left_;
    }
    remaining_ += rank.operations.size();
  }
}

bool Walk::is_complete(const RankState& state, std::uint32_t operation) const {
  return state.place_in_lane[operation] < state.lanes[state.lane_of[operation]].done;
}

bool Walk::is_ready(std::uint32_t rank, LaneState& lane) const {
  if (lane.offered != lane.done || lane.done == lane.queue.size()) return false;
  const RankState& state = ranks_[rank];
  if (lane.blocker_lane >= 0) {
    if (state.lanes[static_cast<std::size_t>(lane.blocker_lane)].done <= lane.blocker_place) return false;
    lane.blocker_lane = -1;
  }
  const std::uint32_t i = lane.queue[lane.done];
  if (state.host_syncs_done < state.host_syncs.size() && state.host_syncs[state.host_syncs_done] < i)
    return false;
  const RankPlan& plan = plan_.ranks[rank];
  for (const std::uint32_t before : plan.after(plan.operations[i]))
    if (!is_complete(state, before)) {
      lane.blocker_place = state.place_in_lane[before];
      lane.blocker_lane = state.lane_of[before];
      return false;
    }
  for (const std::uint32_t before : plan.after_started(plan.operations[i]))
    if (!state.started[before] && !is_complete(state, before)) return false;
  return forward_left_ == 0 || plan.operations[i].phase == Phase::forward;
}

void Walk::offer(std::uint32_t rank, std::vector<OpRef>& ready) {
  for (LaneState& lane : ranks_[rank].lanes) {
    if (!is_ready(rank, lane)) continue;
    lane.offered = lane.done + 1;
    ready.push_back({rank, lane.queue[lane.done]});
  }
}

void Walk::begin(std::vector<OpRef>& ready) {
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) offer(r, ready);
}

void Walk::started(OpRef ref, std::vector<OpRef>& ready) {
  RankState& state = ranks_[ref.rank];
  if (state.started.empty()) return;
  state.started[ref.operation] = true;
  offer(ref.rank, ready);
}

void Walk::post(OpRef ref, std::vector<Match>& matched) {
  const RankPlan& plan = plan_.ranks[ref.rank];
  const Operation& op = plan.operations[ref.operation];
  RankState& state = ranks_[ref.rank];
  state.lanes[state.lane_of[ref.operation]].parts_left = op.parts.count;
  for (std::uint32_t i = op.parts.first; i < op.parts.first + op.parts.count; ++i) {
    const Part& part = plan.parts[i];
    const auto peer = static_cast<std::uint32_t>(part.peer);
    const std::uint64_t key =
        part.send ? channel(op.group, ref.rank, peer) : channel(op.group, peer, ref.rank);
    ChannelQueues::Waiting partner;
    if (!waiting_.match(key, part.send, {ref.rank, ref.operation, i}, partner)) continue;
    const OpRef other{partner.rank, partner.operation};
    matched.push_back(part.send ? Match{ref, i, other, partner.part} : Match{other, partner.part, ref, i});
  }
}

bool Walk::meet(OpRef ref, std::vector<OpRef>& members) {
  const std::uint16_t index = plan_.ranks[ref.rank].operations[ref.operation].group;
  const std::vector<int>& group = plan_.groups.at(index).ranks;
  auto& queues = meetings_[index];
  queues.resize(group.size());
  const auto place = static_cast<std::size_t>(
      std::find(group.begin(), group.end(), plan_.ranks[ref.rank].rank) - group.begin());
  queues.at(place).push_back(ref);
  for (const auto& queue : queues)
    if (queue.empty()) return false;
  for (auto& queue : queues) {
    members.push_back(queue.front());
    queue.erase(queue.begin());
  }
  return true;
}

bool Walk::part_done(OpRef ref) {
  RankState& state = ranks_[ref.rank];
  return --state.lanes[state.lane_of[ref.operation]].parts_left == 0;
}

void Walk::complete(OpRef ref, std::vector<OpRef>& ready) {
  RankState& state = ranks_[ref.rank];
  ++state.lanes[state.lane_of[ref.operation]].done;
  --remaining_;
  const Operation& op = plan_.ranks[ref.rank].operations[ref.operation];
  if (op.kind == OpKind::host_sync) ++state.host_syncs_done;
  const bool last_of_forward = forward_left_ > 0 && op.phase == Phase::forward && --forward_left_ == 0;
  if (!last_of_forward) return offer(ref.rank, ready);
  for (std::uint32_t r = 0; r < ranks_.size(); ++r) offer(r, ready);
}

std::string Walk::blocked(std::size_t lines) const {
  std::string text;
  for (std::uint32_t r = 0; r < ranks_.size() && lines > 0; ++r) {
    for (const LaneState& lane : ranks_[r].lanes) {
      if (lane.done == lane.queue.size()) continue;
      const Operation& op = plan_.ranks[r].operations[lane.queue[lane.done]];
      text += "rank " + std::to_string(plan_.ranks[r].rank) + ": " + describe(plan_.ranks[r], op) +
              (lane.offered > lane.done ? " has started and waits for its peers" : " has not started") + "\n";
      --lines;
      break;
    }
  }
  return text;
}

}  // namespace cplab
