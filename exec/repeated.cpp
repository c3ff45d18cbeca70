// Medians of repeated executions; see repeated.hpp.
#include "exec/repeated.hpp"

#include <algorithm>

namespace cplab {

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

std::vector<PhaseTime> median_phases(const Plan& plan, const std::vector<double>& whole_s,
                                     const std::vector<double>& forward_s) {
  const bool both = std::ranges::any_of(plan.ranks, [](const RankPlan& rank) {
    return std::ranges::any_of(rank.operations,
                               [](const Operation& op) { return op.phase == Phase::backward; });
  });
  if (!both || whole_s.empty() || whole_s.size() != forward_s.size()) return {};
  std::vector<double> backward_s;
  for (std::size_t n = 0; n < whole_s.size(); ++n) backward_s.push_back(whole_s[n] - forward_s[n]);
  return {{Phase::forward, median(forward_s)}, {Phase::backward, median(backward_s)}};
}

double time_not_reported_s(const Plan& plan, const Timeline& timeline) {
  return plan.scenario.problem.direction == Direction::backward ? forward_end_s(plan, timeline) : 0;
}

double forward_end_s(const Plan& plan, const Timeline& timeline) {
  double forward_s = 0;
  for (std::size_t r = 0; r < plan.ranks.size(); ++r)
    for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i)
      if (plan.ranks[r].operations[i].phase == Phase::forward)
        forward_s = std::max(forward_s, timeline.ranks[r][i].end_s);
  return forward_s;
}

Timeline take_lower_median(std::vector<std::pair<double, Timeline>>& timed) {
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return std::move(timed[(timed.size() - 1) / 2].second);
}

}  // namespace cplab
