// The kernels of dynamic mask attention, run by the emulator on host memory.
#pragma once

#include <cstdint>

#include "kernels/kernels.hpp"
#include "kernels/tiles/masked_params.hpp"

namespace cplab::emulator {

// Tables point into host memory. seed: of the order of threads. Throw std::runtime_error if a kernel hangs.
void run_mask_scan(const kernels::cuda::DevicePairMask& mask, bool eight_keys_together, std::uint64_t seed);
void run_select_keys(const kernels::cuda::SelectParams& params, std::uint64_t seed);
// bf16 or fp16 and 64 or 128.
void run_masked_mma(const kernels::cuda::MaskedParams& params, std::uint64_t seed);
void run_masked_mma(const kernels::cuda::MaskedBackwardParams& params, std::uint64_t seed);
// fp64 decides in what sums run.
void run_masked_general(const kernels::cuda::MaskedParams& params, bool fp64, std::uint64_t seed);
void run_masked_general(const kernels::cuda::MaskedBackwardParams& params, bool fp64, std::uint64_t seed);

}  // namespace cplab::emulator
