// A plan as text for people: views, operations and what they wait for, in a line each.
#pragma once

#include <string>

#include "plan/plan.hpp"

namespace cplab {

// "kv_slots[1] rows 0:4096 heads 0:8 columns 128:256": axes that are whole are left out. Rows count as
// stored.
std::string view_text(const RankPlan&, const View&);

// "q, kv[..] => out, lse": what an operation reads and writes, or sends and receives.
std::string operands_text(const RankPlan&, const Operation&);

// "12, 14": the operations of `after`, by ordinal within the phase, with the phase where it is another one.
std::string waits_text(const RankPlan&, const Operation&);

std::string lane_text(const Lane&);  // "compute 0"

// What kind of resource an operation uses: "compute" (attend, attend_backward), "memory" (the other kernels),
// "link" (communication), "host".
enum class Resource { compute, memory, link, host };
Resource resource_of(OpKind);

}  // namespace cplab
