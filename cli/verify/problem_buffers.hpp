// Whether the buffers of a plan can hold what is loaded into them and read from them.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// Every rank has the problem's tensors (inspect_tensors of plan/structure.hpp); its buffers of states
// (states.hpp) have one slot, the rows that its pieces of sequences need, and the problem's heads and
// columns. Throws BadPlan at the first that has not. A plan from a file may come with a scenario of other
// sizes.
void require_problem_buffers(const Plan& plan);

}  // namespace cplab
