// The checker: proves a plan right without a clock, for any number of ranks. It interprets the plan
// symbolically and uses the plan's data types and nothing else of ours (no builder, placement, mask, walk).
#pragma once

#include <cstdint>
#include <vector>

#include "algorithms/finding.hpp"
#include "algorithms/plan.hpp"

namespace cplab {

struct CheckResult {
  std::vector<Finding> findings;
  std::int64_t rounds = 0;               // longest chain of communication operations, both phases
  std::int64_t messages = 0;             // parts sent, all ranks and phases
  std::vector<double> flops;             // per rank, recomputed from the segments
  std::vector<std::int64_t> sent_bytes;  // per rank, recomputed from the parts; to itself not counted
  bool ok() const { return findings.empty(); }
};

// The initial contents (which tokens the inputs q, kv, dout of a rank hold) follow from plan.scenario. At
// most `max_findings` (at least one) are kept, the earliest of every kind first. Throws PlanTooLarge.
CheckResult check(const Plan&, std::size_t max_findings = 100);

}  // namespace cplab
