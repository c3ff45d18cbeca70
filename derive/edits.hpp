// Editing a finished plan: what mutations are made of. The pools only grow; edges follow their operations.
#pragma once

#include <cstddef>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

Span add_ranges(RankPlan&, const std::vector<RowRange>&);
std::uint32_t add_view(RankPlan&, const View&);
Span add_accesses(RankPlan&, const std::vector<Access>&);
Span add_parts(RankPlan&, const std::vector<Part>&);
Span add_segments(RankPlan&, const std::vector<Segment>&);
Span add_chunks(RankPlan&, const std::vector<Chunk>&);
void set_after(RankPlan&, std::size_t operation, const std::vector<std::uint32_t>& after);
void set_after_started(RankPlan&, std::size_t operation, const std::vector<std::uint32_t>& after);

// The operation comes to stand at `place`; ordinals of its phase are counted anew. Its edges must name
// earlier operations. Edges to the operations behind move with them.
void insert_operation(RankPlan&, std::size_t place, Operation);
// Edges to it are dropped, ordinals of its phase are counted anew.
void remove_operation(RankPlan&, std::size_t place);
// The operation at `from` comes to stand at `to`, those between move up or down; edges as for a swap.
void move_operation(RankPlan&, std::size_t from, std::size_t to);
// Two operations change places; edges to them follow them, and an edge that would then point forward is
// dropped: an event that is recorded later makes nobody wait. Ordinals stay with the places.
void swap_operations(RankPlan&, std::size_t a, std::size_t b);

}  // namespace cplab
