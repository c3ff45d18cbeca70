// Right plans written by hand that use what the ring does not: all_to_all, sub-groups, all_reduce in place,
// several compute lanes, strided and permuted rows, barriers and host waits.
#pragma once

#include "plan/plan.hpp"

namespace cplab::hand {

// Sequence to heads and back by all_to_all (Ulysses): two ranks, two query heads and one key head each;
// causal.
Plan traded(std::int64_t rows, DType dtype);
// Four ranks: all gather K and V, each query-head half on a lane of its own; gradients of all keys are summed
// over two pairs of sub-groups, in place; causal.
Plan reduced(std::int64_t rows, DType dtype);
// P ranks gather K and V and scatter the sums of their gradients, each rank's own part in its place;
// causal.
Plan in_place(int P, std::int64_t rows, DType dtype);
// Two ranks: K and V travel with even rows before odd ones, and so do their gradients; full mask, fused
// merge.
Plan permuted(std::int64_t rows, DType dtype);

// P ranks gather K and V; half of the heads on each of two lanes, which raise rows of their own; the maximum
// of both, then over the ranks, is max_logit; full mask, forward.
Plan raised(int P, DType dtype = DType::fp64);

}  // namespace cplab::hand
