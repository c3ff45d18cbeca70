// The tensor-core attention kernels of this build: bf16 and fp16, equal head and value sizes, SM 8.0 and up.
#pragma once

#include <span>

#include "kernels/cuda/variants.hpp"
#include "kernels/work/fits.hpp"

namespace cplab::kernels::cuda {

std::span<const AttendVariant> attend_mma_variants();
std::span<const AttendBackwardVariant> attend_backward_mma_variants();

// One translation unit for each head size.
AttendVariant attend_mma_bf16_64();
AttendVariant attend_mma_bf16_128();
AttendVariant attend_mma_fp16_64();
AttendVariant attend_mma_fp16_128();
AttendBackwardVariant attend_backward_mma_bf16_64();
AttendBackwardVariant attend_backward_mma_bf16_128();
AttendBackwardVariant attend_backward_mma_fp16_64();
AttendBackwardVariant attend_backward_mma_fp16_128();

#ifdef CPLAB_FULL_KERNELS
AttendVariant attend_mma_bf16_32();
AttendVariant attend_mma_bf16_96();
AttendVariant attend_mma_fp16_32();
AttendVariant attend_mma_fp16_96();
AttendBackwardVariant attend_backward_mma_bf16_32();
AttendBackwardVariant attend_backward_mma_bf16_96();
AttendBackwardVariant attend_backward_mma_fp16_32();
AttendBackwardVariant attend_backward_mma_fp16_96();
#endif

}  // namespace cplab::kernels::cuda
