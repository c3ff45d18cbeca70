// The operands of local, local_backward, state, scan, combine and inter; for structure_operands.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// What is wrong with the operands of an operation of linear attention that has a signature, or null.
const char* wrong_linear_operands(const RankPlan&, const Operation&,
                                  const std::vector<std::int64_t>& view_rows);

}  // namespace cplab
