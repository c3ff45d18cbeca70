// Changes after which a right plan is as right as before: what the checker accepted it must go on accepting.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab::hand {

// Buffers that are neither inputs nor outputs take names of their own.
void rename_buffers(Plan&, std::uint64_t seed);

// Ranges of rows and columns are cut in two, with empty ones between; so are the queries of segments.
void spell_otherwise(Plan&, std::uint64_t seed);

// Neighbours in the order of issue that nothing orders change places, on every rank: operations of different
// lanes keep their edges; for those of one lane that use nothing together edges are derived anew. Launches on
// communicators keep their order.
void permute_independent(Plan&, std::uint64_t seed);

// Everything goes over the copy link, where no communicator asks for an order; on half of the ranks launches
// of different lanes that nothing orders change places.
void launch_over_copy(Plan&, std::uint64_t seed);

}  // namespace cplab::hand
