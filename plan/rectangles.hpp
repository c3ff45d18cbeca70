// Prefix, groups and rectangles of a mask: which a sequence has, and whether they make sense.
#pragma once

#include "plan/problem.hpp"

namespace cplab {

// Throws ScenarioError for those that leave their sequence, are empty, share a pair with another one, or
// stand beside what has none.
void require_rectangles(const Problem&);

}  // namespace cplab
