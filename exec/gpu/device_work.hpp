// Kernels that no operation of a plan names: a wait (--jitter), and a part of a message that stays on its
// rank.
#pragma once

#include <cstdint>

#include "exec/byte_runs.hpp"
#include "kernels/cuda.hpp"

namespace cplab {

// Queues one thread that waits `nanoseconds`. Returns the cudaError_t of the launch.
int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds);

// Copies within one GPU at the bandwidth of its memory: the driver's copies of strided runs reach a third of
// it on an H200. Returns the cudaError_t of the launch.
int queue_local_copy(kernels::CudaStream stream, const ByteBlock& block);

}  // namespace cplab
