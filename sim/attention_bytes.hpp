// What an operation of attention moves at least.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

// Bytes of the rows that its segments name, each operand once: q and out (in the backward q, dout and dq), k
// and v (in the backward with their gradients), all in the problem's dtype.
double attention_bytes(const Plan&, const RankPlan&, const Operation&);

}  // namespace cplab
