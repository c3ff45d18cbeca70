// What dynamic mask attention costs beside attention of the same tile, as far as it can be known before the
// data: how many cells of 64 queries x 64 keys are computed, and which bytes of bias and keep mask are moved.
#pragma once

#include "calls/kernel_call.hpp"
#include "plan/problem.hpp"
#include "sim/kernel_cost.hpp"

namespace cplab {

// The expected share of cells that hold a kept pair where every key (with `block`, every group of keys) is
// selected with the same chance, independently: top_k / n, and one half for "relu". Which keys are selected
// is data, and where they lie together fewer cells are computed; without a selection it is 1, and exact.
//   s = P(selected); with block g > 1: s = P(Binomial(g, s) > g / 2)
//   keys: 1 - (1 - s)^(64 / g)      full: 1 - (1 - s)^(64 * 64 / g), exponents 1 and 64 at least
double expected_kept_cells(const Problem&);

// Bytes of a masked call, 0 of others: the scan of the keep mask; and where bias and keep are of pairs, those
// of the cells that are computed, once in the forward and twice in the backward (for dk and dv, and for dq),
// with the bias gradient, which is filled with 0 where it is stored and then written.
double masked_bytes(const KernelCall&, double kept_cells);

// From the cost of all cells to that of dynamic mask attention: times the share of cells, and those bytes.
// Assumed where keys are selected and at head sizes other than 128, else extrapolated.
void add_mask(const Problem&, const KernelCall&, double copy_bytes_s, KernelCost& cost);

}  // namespace cplab
