// The checker: proves a plan right without a clock, for any number of ranks. It interprets the plan
// symbolically and uses the plan's data types and nothing else of ours (no builder, placement, mask, walk).
#pragma once

#include <cstddef>

#include "plan/finding.hpp"
#include "plan/plan.hpp"

namespace cplab {

// The initial contents (which tokens the inputs q, kv, dout of a rank hold) follow from plan.scenario. At
// most `max_findings` (at least one) are kept, the earliest of every kind first. Throws PlanTooLarge.
CheckResult check(const Plan&, std::size_t max_findings = 100);

}  // namespace cplab
