// Backward attention on tensor cores: bf16 and fp16, head size 64.
#include "kernels/cuda/attend_backward_mma.cuh"
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {

AttendBackwardVariant attend_backward_mma_bf16_64() {
  return attend_backward_mma_variant<__nv_bfloat16, 64>(
      "attend_backward mma bf16 64",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::bf16, 64); });
}

AttendBackwardVariant attend_backward_mma_fp16_64() {
  return attend_backward_mma_variant<__half, 64>(
      "attend_backward mma fp16 64",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::fp16, 64); });
}

}  // namespace cplab::kernels::cuda
