// All gradients of attention in one kernel for Hopper: bf16 and fp16, head size 64.
#include "kernels/cuda/hopper/attend_backward_fused_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendBackwardVariant attend_backward_fused_bf16_64() {
  return attend_backward_fused_variant<__nv_bfloat16, 64>(
      "attend_backward hopper fused bf16 64",
      [](const AttendBackward& call) { return fits_attend_backward_fused(call, DType::bf16, 64); });
}

AttendBackwardVariant attend_backward_fused_fp16_64() {
  return attend_backward_fused_variant<__half, 64>(
      "attend_backward hopper fused fp16 64",
      [](const AttendBackward& call) { return fits_attend_backward_fused(call, DType::fp16, 64); });
}

}  // namespace cplab::kernels::cuda::hopper
