// Walks back from the last operation to end along what each operation waited for.
#include "sim/critical_path.hpp"

#include <algorithm>

#include "sim/chain_sum.hpp"

namespace cplab {

void add_parts(OriginSeconds& sum, double seconds, const OperationTime& time, const Cause& cause) {
  const double lost = seconds * static_cast<double>(cause.lost_share);
  double shares = 0;
  for (std::size_t n = 0; n < cause.shares.size(); ++n) {
    sum.seconds[n] += (seconds - lost) * static_cast<double>(cause.shares[n]);
    shares += static_cast<double>(cause.shares[n]);
  }
  sum.add(cause.lost_origin, lost);
  // What the shares leave: all of it where there are none, else their rounding.
  sum.add(time.origin, (seconds - lost) * (1 - shares));
}

void UseSeconds::add(OpKind kind, double s) {
  if (kind == OpKind::attend || kind == OpKind::attend_backward || is_linear(kind))
    attention += s;
  else if (kind == OpKind::host_sync)
    host += s;
  else
    (is_communication(kind) ? communication : other_kernels) += s;
}

CriticalPath critical_path(const Plan& plan, const Recording& recording, Origin host_origin,
                           std::vector<ChainStep>& steps) {
  CriticalPath result;
  ChainSum sum;
  std::size_t rank = 0, index = 0;
  double t = -1;
  for (std::size_t r = 0; r < recording.times.size(); ++r) {
    for (std::size_t i = 0; i < recording.times[r].size(); ++i) {
      if (recording.times[r][i].end_s <= t) continue;
      t = recording.times[r][i].end_s;
      rank = r;
      index = i;
    }
  }
  if (t < 0) return result;
  // What lasts from `begin_s` to where the walk stands.
  const auto step = [&](double begin_s, bool host) {
    if (t > begin_s)
      steps.push_back({begin_s, t, static_cast<std::int32_t>(rank), static_cast<std::uint32_t>(index), host});
  };
  const auto by_host = [&](double seconds) {
    result.by_origin.add(host_origin, seconds);
    result.by_use.host += seconds;
    sum.add_host(static_cast<std::int32_t>(rank), seconds);
  };
  const auto by_operation = [&](double seconds, bool moving) {
    const Cause& cause = recording.causes[rank][index];
    add_parts(result.by_origin, seconds, recording.times[rank][index], cause);
    const OpKind kind = plan.ranks[rank].operations[index].kind;
    result.by_use.add(kind, seconds);
    sum.add(static_cast<std::int32_t>(rank), kind, cause, seconds, moving);
  };
  // Everything after t is accounted for; an operation that was still running at t counts up to t.
  for (;;) {
    const OperationTime* time = &recording.times[rank][index];
    const Cause* cause = &recording.causes[rank][index];
    if (cause->begin_us >= 0) {
      const double begin_s = std::min(t, cause->begin_us * 1e-6);
      by_operation(t - begin_s, true);
      step(begin_s, false);
      t = begin_s;
      if (cause->peer_rank >= 0) {
        rank = static_cast<std::size_t>(cause->peer_rank);
        index = cause->peer_operation;
        time = &recording.times[rank][index];
        cause = &recording.causes[rank][index];
      }
    }
    const double start_s = std::min(t, time->start_s);
    by_operation(t - start_s, false);
    step(start_s, false);
    t = start_s;
    const bool issued = cause->start == Cause::host;
    const std::uint32_t before = issued ? cause->issue : cause->start;
    const bool other_rank = !issued && cause->start_rank >= 0;
    if (before == no_operation) {
      by_host(t);
      step(0, true);
      result.parts = sum.parts();
      return result;
    }
    const std::size_t from = other_rank ? static_cast<std::size_t>(cause->start_rank) : rank;
    const double end_s = std::min(t, recording.times[from][before].end_s);
    step(end_s, true);
    rank = from;
    index = before;
    by_host(t - end_s);
    t = end_s;
  }
}

}  // namespace cplab
