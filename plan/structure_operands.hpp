// What is wrong with the operands of one operation; for plan/structure*.cpp only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/structure.hpp"

namespace cplab {

struct WrongOperands {
  FindingKind kind = FindingKind::coverage;
  std::string what;  // "has operands whose shapes do not fit each other"; empty: nothing is wrong
};

inline constexpr const char* wrong_mode = "writes in a mode that it does not have";
inline constexpr const char* wrong_role = "has an operand of the wrong dtype role";

// Every index of the operation must have been tested before. `view_rows`: by view, its number of rows.
WrongOperands wrong_operands(const RankPlan&, const Operation&, const std::vector<std::int64_t>& view_rows);
// plan/structure_linear.cpp: what is wrong with the operands of an operation of linear attention that has a
// signature, or null.
const char* wrong_linear_operands(const RankPlan&, const Operation&,
                                  const std::vector<std::int64_t>& view_rows);
// plan/structure_convolution.cpp: likewise of convolve and filter_gradient.
const char* wrong_convolution(const RankPlan&, const Operation&, const std::vector<std::int64_t>& view_rows);
// plan/structure_projections.cpp: likewise of project, project_backward and weight_gradient.
const char* wrong_projection(const RankPlan&, const Operation&, const std::vector<std::int64_t>& view_rows);

}  // namespace cplab
