// Linear attention whose tokens do more to a state than decay it: what a rank does is affine, S -> T S + M.
#pragma once

#include "algorithms/linear.hpp"

namespace cplab {

// Every rank gathers (M, T) of all ranks and folds those before it; backward, R -> T^T R + dM of those behind
// it.
void run_affine_gather(Builder&);

}  // namespace cplab
