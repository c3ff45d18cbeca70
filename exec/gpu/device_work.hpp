// A kernel that no plan contains: a wait (--jitter).
#pragma once

#include <cstdint>

#include "kernels/cuda.hpp"

namespace cplab {

// Queues one thread that waits `nanoseconds`. Returns the cudaError_t of the launch.
int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds);

}  // namespace cplab
