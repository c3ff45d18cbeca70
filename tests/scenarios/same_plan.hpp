// Are two plans the same to everybody who reads them?
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace cplab::testing {

// The first difference ("operation 1/forward/3: segments"), or nothing. The order of the pools, and whether
// equal entries share one, makes none.
std::string difference(const RankPlan&, const RankPlan&);
// The same of scenario, groups, padding and all ranks.
std::string difference(const Plan&, const Plan&);

}  // namespace cplab::testing
