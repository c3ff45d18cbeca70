// How much work attention is: visible (query, key) pairs, and the floating-point operations of one. The
// checker counts both on its own.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab {

// Number of (query, key) pairs that a segment makes visible.
double live_pairs(const Segment&);

// The same pairs without the rows at either end that are in none: of a window between two chunks a few rows
// of each.
Segment live_part(const Segment&);

// Of one visible pair and query head: attend 2(D+E), attend_backward 2(3D+2E) (Dao 2023, arXiv 2307.08691:
// two and five products); 0 for all other kinds.
double flops_per_pair(OpKind, std::int64_t head_size, std::int64_t value_size);

}  // namespace cplab
