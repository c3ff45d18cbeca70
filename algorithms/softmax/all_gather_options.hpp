// What can be chosen of all-gather attention (all_gather.cpp).
#pragma once

#include "algorithms/core/algorithm.hpp"

namespace cplab {

// Placements, options, defaults and checks; no name and no build.
Algorithm all_gather_choices();

}  // namespace cplab
