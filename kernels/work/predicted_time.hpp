// How long a variant takes for a call, as far as a choice between variants needs to know: tiles, waves of
// them, and memory. Plain host code.
#pragma once

#include "kernels/work/variants.hpp"

namespace cplab::kernels::cuda {

// Seconds on an otherwise idle GPU with options.sms multiprocessors: the launch, and the longer of two times.
// Tiles: those of `chosen`, each as long as its blocks of 128 rows of the other side (tile_times()), times a
// cost of the variant, one after the other on the multiprocessor that is free first (makespan()). Memory:
// every view once, at the bandwidth of the fastest product of the architecture. Where a backward computes
// delta, that is not in it, but for what is spared because of it.
//
// The costs were fitted to times on H200s and H100s (measured_constants.hpp says
// how far off they are: most shapes within 20 %). For another architecture only their ratios mean something,
// and for a head size that was not measured the cost is on the straight line through those that were.
double predicted_seconds(const ChosenForward& chosen, const Attend& call, const VariantOptions& options);
double predicted_seconds(const ChosenBackward& chosen, const AttendBackward& call,
                         const VariantOptions& options);

}  // namespace cplab::kernels::cuda
