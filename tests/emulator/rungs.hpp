// The ladder of tests/rungs, run by the emulator on host memory.
#pragma once

#include <cstdint>

#include "tests/rungs/rung.hpp"

namespace cplab::emulator {

// The n-th rung, on a GPU of two multiprocessors. Throws std::runtime_error if it hangs or does what hardware
// would not forgive.
void run_rung(int n, const kernels::cuda::hopper::rungs::Problem& problem, std::uint64_t seed,
              bool late_copies);
int rung_count();
const char* rung_name(int n);

}  // namespace cplab::emulator
