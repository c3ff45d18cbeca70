// GPU events on the host's clock; see clock.hpp.
#include "exec/gpu/clock.hpp"

#include <algorithm>
#include <cmath>

namespace cplab {

GpuClock::Reference GpuClock::measure(GpuRank& rank) {
  constexpr int tries = 20;
  Reference best;
  rank.use_device();
  for (int n = 0; n < tries; ++n) {
    Reference tried;
    tried.event = rank.new_event(EventUse::timing);
    rank.synchronize();
    const auto before = Clock::now();
    rank.record(tried.event, 0);
    while (!rank.reached(tried.event)) {
    }
    const auto after = Clock::now();
    tried.half_width_s = std::chrono::duration<double>(after - before).count() / 2;
    tried.at = before + (after - before) / 2;
    if (tried.half_width_s < best.half_width_s) best = tried;
  }
  return best;
}

void GpuClock::align(GpuRank& rank) {
  if (rank.lanes().empty()) return;
  reference_ = measure(rank);
  residual_s_ = reference_.half_width_s;
}

void GpuClock::check(GpuRank& rank) {
  if (reference_.event == nullptr) return;
  const Reference later = measure(rank);
  const double host_s = std::chrono::duration<double>(later.at - reference_.at).count();
  const double drift_s = std::abs(host_s - rank.elapsed_s(reference_.event, later.event));
  residual_s_ = std::max(residual_s_, drift_s);
}

std::vector<OperationTime> GpuClock::read(GpuRank& rank, const std::vector<double>& issue_s,
                                          Clock::time_point start) const {
  std::vector<OperationTime> times(issue_s.size());
  const double offset_s = std::chrono::duration<double>(reference_.at - start).count();
  for (std::uint32_t i = 0; i < times.size(); ++i) {
    const GpuOperation& op = rank.operation(i);
    OperationTime& time = times[i];
    time.issue_s = issue_s[i];
    time.start_s = std::max(0.0, offset_s + rank.elapsed_s(reference_.event, op.begin));
    time.end_s = std::max(time.start_s, offset_s + rank.elapsed_s(reference_.event, op.end));
    const Operation& of = rank.plan().operations[i];
    const bool meets = of.kind == OpKind::all_reduce || of.kind == OpKind::barrier;
    if (!is_communication(of.kind) || of.transport != Transport::copy || (op.sends.empty() && !meets))
      continue;
    const double waited_s = rank.elapsed_s(op.begin, op.moving) + rank.elapsed_s(op.moved, op.end);
    time.wait_s = std::clamp(waited_s, 0.0, time.end_s - time.start_s);
  }
  return times;
}

void nccl_waits(const Plan& plan, const GpuMessages& messages, Timeline& timeline) {
  for (const GpuMessage& message : messages) {
    const OpRef a = message.match.sender, b = message.match.receiver;
    if (plan.ranks[b.rank].operations[b.operation].transport != Transport::nccl) continue;
    for (const auto& [own, peer] : {std::pair{a, b}, std::pair{b, a}}) {
      OperationTime& time = timeline.ranks[own.rank][own.operation];
      const double waited_s = timeline.ranks[peer.rank][peer.operation].start_s - time.start_s;
      time.wait_s = std::clamp(waited_s, time.wait_s, std::max(time.wait_s, time.end_s - time.start_s));
    }
  }
  for (const GpuMeeting& meeting : messages.meetings()) {
    if (meeting.plan.transport != Transport::nccl) continue;
    double all_s = 0;  // when the last member has come
    for (const OpRef m : meeting.plan.members)
      all_s = std::max(all_s, timeline.ranks[m.rank][m.operation].start_s);
    for (const OpRef m : meeting.plan.members) {
      OperationTime& time = timeline.ranks[m.rank][m.operation];
      time.wait_s =
          std::clamp(all_s - time.start_s, time.wait_s, std::max(time.wait_s, time.end_s - time.start_s));
    }
  }
}

}  // namespace cplab
