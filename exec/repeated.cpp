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

Timeline take_lower_median(std::vector<std::pair<double, Timeline>>& timed) {
  std::stable_sort(timed.begin(), timed.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return std::move(timed[(timed.size() - 1) / 2].second);
}

}  // namespace cplab
