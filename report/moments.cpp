// A sweep over the begins and ends of a rank's operations.
#include "report/moments.hpp"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

namespace cplab {
namespace {

// Smaller counts first.
int rank_of(OpKind kind) {
  if (kind == OpKind::attend || kind == OpKind::attend_backward) return 0;
  return is_communication(kind) ? 2 : 1;
}

}  // namespace

std::vector<Moment> moments(const RankPlan& rank, std::span<const OperationTime> times, double begin_s,
                            double end_s) {
  std::vector<std::tuple<double, bool, std::uint32_t>> changes;  // when, whether it begins, which
  for (std::uint32_t i = 0; i < rank.operations.size(); ++i) {
    if (rank.operations[i].kind == OpKind::host_sync) continue;
    const double from = std::max(times[i].start_s, begin_s), to = std::min(times[i].end_s, end_s);
    if (from >= to) continue;
    changes.emplace_back(from, true, i);
    changes.emplace_back(to, false, i);
  }
  std::sort(changes.begin(), changes.end());
  std::vector<Moment> result;
  std::set<std::pair<int, std::uint32_t>> under_way;
  double now = begin_s;
  const auto until = [&](double next) {
    if (next <= now) return;
    const std::uint32_t operation = under_way.empty() ? Moment::nothing : under_way.begin()->second;
    if (!result.empty() && result.back().operation == operation)
      result.back().end_s = next;
    else
      result.push_back({now, next, operation});
    now = next;
  };
  for (const auto& [at, begins, i] : changes) {
    until(at);
    const std::pair<int, std::uint32_t> entry{rank_of(rank.operations[i].kind), i};
    if (begins)
      under_way.insert(entry);
    else
      under_way.erase(entry);
  }
  until(end_s);
  return result;
}

}  // namespace cplab
