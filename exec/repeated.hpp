// What repeated executions report: medians, and of which phases.
#pragma once

#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

double median(std::vector<double> values);  // 0 of none
// The timeline with the (lower) median time; `timed` is not empty.
Timeline take_lower_median(std::vector<std::pair<double, Timeline>>& timed);

// The seconds of an iteration that its time does not count: those of the forward with direction = "backward".
double time_not_reported_s(const Plan& plan, const Timeline& timeline);

}  // namespace cplab
