// simulate --algorithms: one problem under every algorithm, placement and team size that takes it, in one
// table.
#pragma once

#include "cli/arguments.hpp"
#include "cli/console.hpp"

namespace cplab {

// "all", or names of algorithms between commas. Every placement that an algorithm has, or the one that --set
// names; of algorithms with teams every inner_ranks from 2 to below ranks that divides ranks, in every
// inner_order; of strides 1 and 2 key heads; other options as the scenario has them, else the algorithm's
// own. The fastest first; rows whose band reaches down into the band of the first are marked: which of them
// is the fastest is not known. What refuses the scenario is named with the reason. Exit code.
int simulate_algorithms(const Arguments&, Console&);

}  // namespace cplab
