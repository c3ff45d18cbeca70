// What repeated executions report: medians, and of which phases.
#pragma once

#include <utility>
#include <vector>

#include "plan/plan.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

double median(std::vector<double> values);  // 0 of none
// The timeline with the (lower) median time; `timed` is not empty.
Timeline take_lower_median(std::vector<std::pair<double, Timeline>>& timed);

// When the forward has ended on all ranks.
double forward_end_s(const Plan& plan, const Timeline& timeline);

// Medians over repetitions: whole_s[n] lasted repetition n, forward_s[n] its forward. Empty for plans of one
// phase, or where the two are not of the same repetitions.
std::vector<PhaseTime> median_phases(const Plan& plan, const std::vector<double>& whole_s,
                                     const std::vector<double>& forward_s);

// The seconds of an iteration that its time does not count: those of the forward with direction = "backward".
double time_not_reported_s(const Plan& plan, const Timeline& timeline);

}  // namespace cplab
