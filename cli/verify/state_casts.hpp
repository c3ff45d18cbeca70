// How often states of linear attention are rounded on their way between ranks (schedule.state_wire_dtype).
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// The most conversions to nominal that any state of the plan has gone through, one after the other, on all of
// its ranks. The plan can be executed.
double count_state_casts(const Plan& plan);

}  // namespace cplab
