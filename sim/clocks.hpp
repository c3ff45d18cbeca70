// At which clock the GPU of a rank runs attention: between the one that its power limit leaves it under
// attention alone and its highest.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "report/timeline.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// By rank how far the clock is lifted: 0 under attention without a pause, 1 the highest. Empty: 0 for all.
struct ClockLift {
  std::vector<double> by_rank;
  double of(int rank) const { return by_rank.empty() ? 0 : by_rank.at(static_cast<std::size_t>(rank)); }
};

// All at the highest clock.
ClockLift highest_clock(std::size_t ranks);

// How many times as fast attention is as under load, at that lift (BurstSpec).
double attention_speed(const BurstSpec&, std::int64_t head_size, double lift);

// The lifts of ranks that would run this timeline, made without a lift, again and again: what a GPU does
// beside attention draws less power, and leaves attention a higher clock. The lift falls in a straight line
// from 1, where attention takes burst.share of the time, to 0, where it takes all of it; here the time that
// attention takes is at the lifted clock, the rest as it was. Empty where no rank that works longest is
// faster by more than a part in 2000, or the file does not say burst.share.
ClockLift settled_lift(const Plan&, const Hardware&, const Timeline&);

}  // namespace cplab
