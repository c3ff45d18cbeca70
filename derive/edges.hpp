// Event edges, derived from what operations read and write.
#pragma once

#include "derive/memory.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Gives every operation its `after`: for each earlier conflicting access on another lane (same buffer,
// overlapping boxes, one of them writes; or arena bytes that a dead buffer left) an edge, unless other edges
// and lane order imply it. Buffers need their offsets. Replaces edges that are there.
void derive_edges(RankPlan&);
void derive_edges(RankPlan&, const MemoryPlan&);  // its memory plan, if at hand

}  // namespace cplab
