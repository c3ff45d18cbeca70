// A plan and a timeline made by hand, and helpers for tests with real plans.
#pragma once

#include <vector>

#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/results.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Two ranks, bf16, 4 rows, H = 2, G = 1, D = E = 4. On each rank:
//   forward   0 exchange    comm 0     step 0  sends kv, receives kv_slots
//             1 attend      compute 0  step 0  q, kv => out, lse
//             2 attend      compute 0  step 1  q, kv_slots => part_out, part_lse    after 0
//             3 merge       compute 0  step 1  part_out, part_lse => out, lse
//   backward  0 fill        compute 0          part_lse = -inf, every second row, the second head
//             1 all_reduce  comm 0             max of part_lse into lse_max         after fill and merge
//             2 host_sync   comm 0
// Bytes: q 64, kv 64, out 64, lse 32, kv_slots 64, part_out 64, part_lse 32, lse_max 32.
Plan hand_plan();

// Seconds, so that figures can be counted on fingers:
//             exchange       attend   attend   merge     fill      all_reduce  host_sync
//   rank 0    1-5 (wait 1)   0-2      6-8      8-9       9-10      10-11       11-11
//   rank 1    2-5 (wait 0)   0-3      5-8      8-8.5     9-10      10-11       11-11
// Origins: exchange assumed, all_reduce extrapolated, merge interpolated, the others measured.
Timeline hand_timeline();

// Each operation takes a millisecond from when its lane, its edges and its peers let it; a communication
// waits from its start for the last of its peers.
Timeline millisecond_timeline(const Plan& plan);

// An operation's time from `start` to `end` that waits for nobody; measured.
OperationTime from_to(double start, double end);

std::vector<MemoryPlan> memory_of(const Plan& plan);

}  // namespace cplab
