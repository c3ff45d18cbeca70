// All gradients of attention in one kernel for Hopper: fp16, head size 128.
#include "kernels/cuda/hopper/attend_backward_fused_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendBackwardVariant attend_backward_fused_fp16_128() {
  return attend_backward_fused_variant<__half, 128>(
      "attend_backward hopper fused fp16 128",
      [](const AttendBackward& call) { return fits_attend_backward_fused(call, DType::fp16, 128); });
}

}  // namespace cplab::kernels::cuda::hopper
