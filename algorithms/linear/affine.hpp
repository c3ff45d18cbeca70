// Linear attention whose tokens do more to a state than decay it: what a rank does is affine, S -> T S + M,
// and backward R -> T^T R + dM. One class; an algorithm says how what enters a rank is made of the others'
// (M, T).
#pragma once

#include <functional>
#include <memory>

#include "algorithms/linear/linear.hpp"
#include "algorithms/linear/state_scan.hpp"

namespace cplab {

// What the tokens of a rank, or of several, do to what enters them.
struct AffineMap {
  Box state, transition;  // M (backward dM) and T
};

struct AffineChoices {
  // Writes `carry`, where it is given, from the maps of the ranks before (backward: behind) this one. `own`:
  // of this rank; with `every_rank` a slot for each, this rank's own filled.
  std::function<void(const LinearScope&, StateScan&, const AffineMap& own, const Box& carry)> scan;
  bool every_rank = false;
  // Whether the scan in that direction asks this rank for its T; always where this is not given.
  std::function<bool(const LinearScope&, const StateScan&)> asks_transition = {};
};

void run_affine(Builder&, const AffineChoices&);
// The same over some scope; both outlive it.
std::unique_ptr<LinearAlgorithm> affine(const LinearScope&, const AffineChoices&);

// Throws ScenarioError for decays by slopes, whose passage from rank to rank is a power of a factor.
void validate_affine(const Scenario&);

}  // namespace cplab
