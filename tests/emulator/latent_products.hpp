// The products for latent keys and values, run by the emulator on host memory.
#pragma once

#include <cstdint>

#include "kernels/families/products/products.hpp"

namespace cplab::emulator {

// As the launch functions of products.hpp; seed: of the order of threads.
void run_project(const kernels::cuda::ProjectParams&, std::uint64_t seed);
void run_project_backward(const kernels::cuda::ProjectBackwardParams&, std::uint64_t seed);
void run_weight_gradient(const kernels::cuda::WeightGradientParams&, std::uint64_t seed);

}  // namespace cplab::emulator
