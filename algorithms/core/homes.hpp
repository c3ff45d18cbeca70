// Which sequences lie whole on one rank in placement "hybrid", and on which rank.
#pragma once

#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// By sequence the position that holds all of it, or -1: it is cut over all. The longest are cut, and of the
// counts tried (all up to 64, then every sixteenth more) the fewest that leave every rank with at most 5 %
// more than its share of visible pairs and of rows; where no count does, the one whose fullest rank has
// least. Those not cut go, longest first, to the rank that has least of its share (Graham's LPT rule).
std::vector<int> balanced_homes(const Problem&, const Parallel&);

// Fills in balanced_homes where the placement is "hybrid" and none are given. Throws ScenarioError for
// "parallel.homes" if they are given for another placement, are not one for each sequence, or name a position
// that no group has.
void resolve_homes(Scenario&);

}  // namespace cplab
