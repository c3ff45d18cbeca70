// Random operands for kernels that are timed, made on the GPU.
#pragma once

#include <cstdint>

#include "kernels/cuda.hpp"

namespace cplab::kernels {

// Queues a kernel that fills `count` elements with standard normal values, as torch.randn does, the same for
// the same seed. The clock of a GPU at its power limit depends on the data, so whatever is timed gets such
// values, as the peers in benchmarks do. Returns the cudaError_t of the launch.
int queue_normal(CudaStream stream, void* data, DType dtype, std::int64_t count, std::uint64_t seed);

}  // namespace cplab::kernels
