// Plans for resolved scenarios.
#pragma once

#include "plan/plan.hpp"

namespace cplab {

class Placement;
struct Algorithm;

Plan build_plan(const Scenario& resolved);
// The same with an algorithm that need not be in the list; the scenario has the options that it reads.
Plan build_plan(const Scenario& resolved, const Algorithm&);
// The plan of one global rank, the same as in the whole plan.
RankPlan build_rank(const Scenario& resolved, int rank);
// Builds (again) the ranks of one replica's group in a plan that has its scenario and groups.
void build_group(Plan&, int replica, const Placement&);

}  // namespace cplab
