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

double time_not_reported_s(const Plan& plan, const Timeline& timeline) {
  double forward_s = 0;
  if (plan.scenario.problem.direction != Direction::backward) return 0;
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
