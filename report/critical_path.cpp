// See critical_path.hpp.
#include "report/critical_path.hpp"

#include <algorithm>

#include "report/chain_sum.hpp"

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

CriticalPath critical_path(const Plan& plan, const Recorded& recorded, std::vector<ChainStep>& steps) {
  CriticalPath result;
  ChainSum sum(recorded.processor);
  std::size_t rank = 0, index = 0;
  double t = -1;
  for (std::size_t r = 0; r < recorded.times.size(); ++r) {
    for (std::size_t i = 0; i < recorded.times[r].size(); ++i) {
      if (recorded.times[r][i].end_s <= t) continue;
      t = recorded.times[r][i].end_s;
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
    result.by_origin.add(recorded.host_origin, seconds);
    result.by_use.host += seconds;
    sum.add_host(static_cast<std::int32_t>(rank), seconds);
  };
  const auto by_operation = [&](double seconds, bool moving) {
    const Cause& cause = recorded.causes[rank][index];
    add_parts(result.by_origin, seconds, recorded.times[rank][index], cause);
    const OpKind kind = plan.ranks[rank].operations[index].kind;
    result.by_use.add(kind, seconds);
    sum.add(static_cast<std::int32_t>(rank), kind, cause, seconds, moving);
  };
  // Everything after t is accounted for; an operation that was still running at t counts up to t.
  for (;;) {
    const OperationTime* time = &recorded.times[rank][index];
    const Cause* cause = &recorded.causes[rank][index];
    if (cause->begin_s >= 0) {
      const double begin_s = std::min(t, cause->begin_s);
      by_operation(t - begin_s, true);
      step(begin_s, false);
      t = begin_s;
      if (cause->peer_rank >= 0) {
        rank = static_cast<std::size_t>(cause->peer_rank);
        index = cause->peer_operation;
        time = &recorded.times[rank][index];
        cause = &recorded.causes[rank][index];
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
    const double end_s = std::min(t, recorded.times[from][before].end_s);
    step(end_s, true);
    rank = from;
    index = before;
    by_host(t - end_s);
    t = end_s;
  }
}

}  // namespace cplab
