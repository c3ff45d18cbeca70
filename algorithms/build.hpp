// Plans for resolved scenarios.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

class Placement;

Plan build_plan(const Scenario& resolved);
// One global rank's part, the same as in the whole plan.
RankPlan build_rank(const Scenario& resolved, int rank);
// Builds (again) the ranks of one replica's group in a plan that has its scenario and groups.
void build_group(Plan&, int replica, const Placement&);

}  // namespace cplab
