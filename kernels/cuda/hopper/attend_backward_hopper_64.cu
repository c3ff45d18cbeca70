// Gradients of attention for Hopper: bf16 and fp16, head size 64.
#include "kernels/cuda/hopper/attend_backward_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendBackwardVariant attend_backward_hopper_bf16_64() {
  return attend_backward_hopper_variant<__nv_bfloat16, 64>(
      "attend_backward hopper bf16 64",
      [](const AttendBackward& call) { return fits_attend_backward_hopper(call, DType::bf16, 64); });
}

AttendBackwardVariant attend_backward_hopper_fp16_64() {
  return attend_backward_hopper_variant<__half, 64>(
      "attend_backward hopper fp16 64",
      [](const AttendBackward& call) { return fits_attend_backward_hopper(call, DType::fp16, 64); });
}

}  // namespace cplab::kernels::cuda::hopper
