// The list of the tensor-core attention kernels.
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {
std::span<const AttendVariant> attend_mma_variants() {
  static const AttendVariant variants[] = {
      attend_mma_bf16_128(), attend_mma_bf16_64(), attend_mma_fp16_128(), attend_mma_fp16_64(),
#ifdef CPLAB_FULL_KERNELS
      attend_mma_bf16_96(),  attend_mma_bf16_32(), attend_mma_fp16_96(),  attend_mma_fp16_32(),
#endif
  };
  return variants;
}

std::span<const AttendBackwardVariant> attend_backward_mma_variants() {
  static const AttendBackwardVariant variants[] = {
      attend_backward_mma_bf16_128(), attend_backward_mma_bf16_64(),
      attend_backward_mma_fp16_128(), attend_backward_mma_fp16_64(),
#ifdef CPLAB_FULL_KERNELS
      attend_backward_mma_bf16_96(),  attend_backward_mma_bf16_32(),
      attend_backward_mma_fp16_96(),  attend_backward_mma_fp16_32(),
#endif
  };
  return variants;
}

}  // namespace cplab::kernels::cuda
