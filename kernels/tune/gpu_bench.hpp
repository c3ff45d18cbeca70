// Bench on the current CUDA device, and what that device is.
#pragma once

#include <memory>

#include "kernels/cuda.hpp"
#include "kernels/tune/machine.hpp"
#include "kernels/tune/tuner.hpp"

namespace cplab::kernels::tune {

// All throw std::runtime_error without a device, and in a build without nvcc.
Machine machine_of_gpu();
cuda::VariantOptions variants_of_gpu(const CallOptions& options);

// Allocates operands and results of the call at hand, and frees them with the next one and at the end. A
// result is right if CPU tiles say so of some of its rows (wrong_rows()), and if all of it is the same as
// that of another variant, which has passed this test and shares least code with the fast ones: the last of
// the table that is done within about two seconds. A time is that of a launch behind a memset that sweeps the
// L2 cache and outlasts the queueing, the median of three. The measured calls are those of `variants`.
std::unique_ptr<Bench> gpu_bench(const cuda::VariantOptions& variants);

}  // namespace cplab::kernels::tune
