// Gradients of attention for Hopper: bf16 and fp16, head size 128.
#include "kernels/cuda/hopper/attend_backward_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendBackwardVariant attend_backward_hopper_bf16_128() {
  return attend_backward_hopper_variant<__nv_bfloat16, 128>(
      "attend_backward hopper bf16 128",
      [](const AttendBackward& call) { return fits_attend_backward_hopper(call, DType::bf16, 128); });
}

AttendBackwardVariant attend_backward_hopper_fp16_128() {
  return attend_backward_hopper_variant<__half, 128>(
      "attend_backward hopper fp16 128",
      [](const AttendBackward& call) { return fits_attend_backward_hopper(call, DType::fp16, 128); });
}

}  // namespace cplab::kernels::cuda::hopper
