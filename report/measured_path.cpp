// See measured_path.hpp: the causes that the times of a run leave, for the walk of critical_path.hpp.
#include "report/measured_path.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "derive/walk.hpp"
#include "report/critical_path.hpp"
#include "report/peers.hpp"

namespace cplab {
namespace {

struct ForwardEnd {
  OpRef last;
  double end_s = 0;
};

// Of all ranks; none if the plan has no forward.
std::optional<ForwardEnd> end_of_forward(const Plan& plan, const Timeline& timeline) {
  std::optional<ForwardEnd> end;
  for (std::uint32_t r = 0; r < plan.ranks.size(); ++r)
    for (std::uint32_t i = 0; i < plan.ranks[r].operations.size(); ++i) {
      const double end_s = timeline.ranks[r][i].end_s;
      if (plan.ranks[r].operations[i].phase == Phase::forward && (!end || end_s > end->end_s))
        end = {{r, i}, end_s};
    }
  return end;
}

// What let every operation of a rank start.
class Starts {
 public:
  // `forward`: what its backward waited for, if it did.
  Starts(const RankPlan& rank, const std::vector<OperationTime>& times,
         const std::optional<ForwardEnd>& forward)
      : rank_(rank), times_(times), forward_(forward) {}

  // For all operations in the order of the plan.
  void next(Cause& cause, const std::vector<Cause>& earlier) {
    const Operation& op = rank_.operations[index_];
    at_s_ = -1;
    std::uint32_t& before =
        last_on_lane_.try_emplace({op.lane.kind, op.lane.index}, no_operation).first->second;
    if (before != no_operation) ended(cause, before);
    for (const std::uint32_t edge : rank_.after(op)) ended(cause, edge);
    if (sync_ != no_operation) ended(cause, sync_);
    // It could not start before that one did, whatever that waited for.
    for (const std::uint32_t edge : rank_.after_started(op))
      if (later(times_[edge].start_s)) {
        cause.start = earlier[edge].start;
        cause.start_rank = earlier[edge].start_rank;
      }
    if (op.phase == Phase::backward && forward_ && later(forward_->end_s)) {
      cause.start = forward_->last.operation;
      cause.start_rank = static_cast<std::int32_t>(forward_->last.rank);
    }
    before = index_;
    if (op.kind == OpKind::host_sync && (sync_ == no_operation || times_[index_].end_s > times_[sync_].end_s))
      sync_ = index_;
    ++index_;
  }

 private:
  bool later(double s) {
    if (s <= at_s_) return false;
    at_s_ = s;
    return true;
  }
  void ended(Cause& cause, std::uint32_t operation) {
    if (!later(times_[operation].end_s)) return;
    cause.start = operation;
    cause.start_rank = -1;
  }

  const RankPlan& rank_;
  const std::vector<OperationTime>& times_;
  const std::optional<ForwardEnd>& forward_;
  std::map<std::pair<LaneKind, std::uint8_t>, std::uint32_t> last_on_lane_;
  std::uint32_t sync_ = no_operation;  // of those so far the one that ended last
  std::uint32_t index_ = 0;
  double at_s_ = -1;  // when the latest of what this operation waited for was over
};

// Since when the operation moves data. A peer that came after the end (a message that was buffered) held
// nobody up.
void set_peer(Cause& cause, const Timeline& timeline, OpRef own, const LastPeer& peer, OpKind kind) {
  cause.carrier = ChainResource::message;
  if (peer.ref.operation == no_operation) {
    cause.far_rank = static_cast<std::int32_t>(own.rank);
    return;
  }
  const OperationTime& time = timeline.ranks[own.rank][own.operation];
  const double came_s = timeline.ranks[peer.ref.rank][peer.ref.operation].start_s;
  const bool waits = time.start_s < came_s && came_s < time.end_s;
  cause.begin_s = waits ? came_s : time.start_s;
  if (waits) {
    cause.peer_rank = static_cast<std::int32_t>(peer.ref.rank);
    cause.peer_operation = peer.ref.operation;
  }
  cause.far_rank = kind == OpKind::exchange ? static_cast<std::int32_t>(peer.ref.rank) : -1;
  cause.sends = !peer.sends;
}

using Peers = std::vector<std::vector<LastPeer>>;

std::vector<std::vector<Cause>> causes_of(const Plan& plan, const Timeline& timeline, const Peers& peers,
                                          const MeasuredOn& on) {
  std::optional<ForwardEnd> forward;
  if (on.phases_apart) forward = end_of_forward(plan, timeline);
  std::vector<std::vector<Cause>> causes;
  for (std::uint32_t r = 0; r < plan.ranks.size(); ++r) {
    const std::vector<Operation>& operations = plan.ranks[r].operations;
    std::vector<Cause>& own = causes.emplace_back(operations.size());
    Starts starts(plan.ranks[r], timeline.ranks[r], forward);
    for (std::uint32_t i = 0; i < operations.size(); ++i) {
      starts.next(own[i], own);
      if (is_communication(operations[i].kind))
        set_peer(own[i], timeline, {r, i}, peers[r][i], operations[i].kind);
    }
  }
  return causes;
}

void count_communications(const Plan& plan, const Timeline& timeline, const Peers& peers,
                          double clock_residual_s, MeasuredPath& path) {
  std::set<std::pair<std::int32_t, std::uint32_t>> seen;
  for (const ChainStep& step : path.steps) {
    const auto rank = static_cast<std::size_t>(step.rank);
    const OpRef peer = peers[rank][step.operation].ref;
    const bool meets = is_communication(plan.ranks[rank].operations[step.operation].kind) &&
                       peer.operation != no_operation && peer.rank != rank;
    if (step.host || !meets || !seen.insert({step.rank, step.operation}).second) continue;
    ++path.communications;
    const double apart_s =
        timeline.ranks[peer.rank][peer.operation].start_s - timeline.ranks[rank][step.operation].start_s;
    // Each of the two may be off by that much.
    if (std::abs(apart_s) < 2 * clock_residual_s) ++path.undecided;
  }
}

}  // namespace

MeasuredPath measured_path(const Plan& plan, const Timeline& timeline, const MeasuredOn& on) {
  const Peers peers = last_peers(plan, timeline);
  const std::vector<std::vector<Cause>> causes = causes_of(plan, timeline, peers, on);
  const Recorded recorded{{timeline.ranks.begin(), timeline.ranks.end()},
                          {causes.begin(), causes.end()},
                          Origin::measured,
                          on.processor};
  MeasuredPath path;
  const CriticalPath critical = critical_path(plan, recorded, path.steps);
  std::ranges::reverse(path.steps);
  path.by_use = critical.by_use;
  path.parts = critical.parts;
  count_communications(plan, timeline, peers, on.clock_residual_s, path);
  return path;
}

}  // namespace cplab
