// Biases of positions, with sinks and softcaps, on tiles of any device beside the CPU tiles.
#pragma once

#include "tests/kernels/masked_cases.hpp"

namespace cplab::testing {

// Alibi and buckets, one way and both, causal and not, keys and queries at positions in several runs: out,
// lse and all gradients, as far apart as the dtype's roundings lead.
void placed_cases(Report& report, const MaskedRunner& runner);

}  // namespace cplab::testing
