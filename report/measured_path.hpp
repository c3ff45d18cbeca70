// The critical path of a run: what a plan and the measured times of its operations say about which chain of
// them determined the end.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"
#include "report/chain.hpp"
#include "report/timeline.hpp"

namespace cplab {

struct MeasuredOn {
  ChainResource processor = ChainResource::gpu;
  // No operation of the backward began before the forward had ended on all ranks.
  bool phases_apart = false;
  // By how much the times of one rank may be off from the time that all share.
  double clock_residual_s = 0;
};

struct MeasuredPath {
  UseSeconds by_use;
  ChainParts parts;
  std::vector<ChainStep> steps;  // in order of time, from 0 to the last end
  // Its communications with other ranks, and those of them in which the clocks cannot say who came last: the
  // starts of the two differ by less than what both may be off.
  std::int64_t communications = 0, undecided = 0;

  double time_s() const { return steps.empty() ? 0 : steps.back().end_s; }
};

// From the last operation to end back to the start: to what each waited for last, by measured ends. These are
// the operation before it on its lane, its edges, the host_syncs before it, and the peer of its messages (of
// a collective the member) that started last. What passed between the end of that and its own start is the
// host's: launches, late issue, on a CPU the turns of other operations. `timeline` has the sizes of the plan.
MeasuredPath measured_path(const Plan& plan, const Timeline& timeline, const MeasuredOn& on);

}  // namespace cplab
