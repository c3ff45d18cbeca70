// Whether the buffers of a plan can hold what is loaded into them and read from them.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// Every rank's buffers of the problem's tensors (plan/tensors.hpp) and of its states (states.hpp) have one
// slot, the rows that the placement gives to the rank, and the problem's heads and columns. Throws BadPlan
// at the first that has not, or that is missing. A plan from a file may come with a scenario of other sizes.
void require_problem_buffers(const Plan& plan);

}  // namespace cplab
