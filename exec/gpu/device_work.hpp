// Two kernels that no plan contains: a wait (--jitter), and random inputs for runs whose results nobody
// reads.
#pragma once

#include <cstdint>

#include "kernels/cuda.hpp"

namespace cplab {

// Queues one thread that waits `nanoseconds`. Returns the cudaError_t of the launch.
int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds);

// Fills `count` elements with values uniform in [-1, 1), the same for the same seed. Returns the cudaError_t
// of the launch.
int queue_random(kernels::CudaStream stream, void* data, kernels::DType dtype, std::int64_t count,
                 std::uint64_t seed);

}  // namespace cplab
