// Medians of repeated executions.
#pragma once

#include <utility>
#include <vector>

#include "report/timeline.hpp"

namespace cplab {

double median(std::vector<double> values);  // 0 of none
// The timeline with the (lower) median time; `timed` is not empty.
Timeline take_lower_median(std::vector<std::pair<double, Timeline>>& timed);

}  // namespace cplab
