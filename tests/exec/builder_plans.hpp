// Algorithms for tests of the builder: what a registered algorithm does not need yet. Small on purpose, and
// not in the list.
#pragma once

#include "algorithms/core/algorithm.hpp"
#include "plan/plan.hpp"

namespace cplab {

// Of what goes on beside the communication of comm_lane (algorithms/softmax/softmax.hpp).
inline constexpr Lane beside_lane{LaneKind::comm, 1};

// Every rank gathers all K and V (one all_gather), attends once, and sums the gradients by a reduce_scatter.
// The backward gathers again, into a buffer that shares a slab with the forward's. The forward's tile waits
// for the start of a barrier on a lane and in a group of its own.
Algorithm gathered_algorithm();

// Heads are traded for tokens by all_to_all (DeepSpeed-Ulysses, arXiv 2309.14509): H and G are multiples of
// P.
Algorithm traded_algorithm();

// As gathered, in two stages: within teams of neighbours, then across them. P is even.
Algorithm two_level_algorithm();

}  // namespace cplab
