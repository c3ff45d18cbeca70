// Backward attention on tensor cores: bf16 and fp16, head size 128.
#include "kernels/cuda/attend_backward_mma.cuh"
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {

AttendBackwardVariant attend_backward_mma_bf16_128() {
  return attend_backward_mma_variant<__nv_bfloat16, 128>(
      "attend_backward mma bf16 128",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::bf16, 128); });
}

AttendBackwardVariant attend_backward_mma_fp16_128() {
  return attend_backward_mma_variant<__half, 128>(
      "attend_backward mma fp16 128",
      [](const AttendBackward& call) { return fits_attend_backward_mma(call, DType::fp16, 128); });
}

}  // namespace cplab::kernels::cuda
