// What one rank does at every moment of a stretch of time: what a time is made of, moment by moment.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Seconds. `operation`: index into RankPlan::operations, or nothing.
struct Moment {
  static constexpr std::uint32_t nothing = std::numeric_limits<std::uint32_t>::max();
  double begin_s = 0, end_s = 0;
  std::uint32_t operation = nothing;
};

// [begin_s, end_s] cut into moments that follow each other without gaps. Of several operations under way one
// counts: attention before other kernels, these before communication, and of the same sort the one that is
// first in program order. A communication therefore counts only while it is exposed. host_sync counts
// nowhere. `times` are the rank's (Timeline::ranks).
std::vector<Moment> moments(const RankPlan&, std::span<const OperationTime> times, double begin_s,
                            double end_s);

}  // namespace cplab
