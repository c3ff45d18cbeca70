// Backward attention on tensor cores: head sizes 32 and 96.
#include "kernels/cuda/attend_backward_mma.cuh"
#include "kernels/cuda/attend_mma.hpp"

#ifdef CPLAB_FULL_KERNELS

namespace cplab::kernels::cuda {

AttendBackwardVariant attend_backward_mma_bf16_32() {
  return attend_backward_mma_variant<__nv_bfloat16, 32>(
      "attend_backward mma bf16 32",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::bf16, 32); });
}

AttendBackwardVariant attend_backward_mma_bf16_96() {
  return attend_backward_mma_variant<__nv_bfloat16, 96>(
      "attend_backward mma bf16 96",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::bf16, 96); });
}

AttendBackwardVariant attend_backward_mma_fp16_32() {
  return attend_backward_mma_variant<__half, 32>(
      "attend_backward mma fp16 32",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::fp16, 32); });
}

AttendBackwardVariant attend_backward_mma_fp16_96() {
  return attend_backward_mma_variant<__half, 96>(
      "attend_backward mma fp16 96",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::fp16, 96); });
}

}  // namespace cplab::kernels::cuda

#endif  // CPLAB_FULL_KERNELS
