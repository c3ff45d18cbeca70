// Forward attention for Hopper: fp16, head size 64.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendVariant attend_hopper_fp16_64() {
  return attend_hopper_variant<__half, 64>(
      "attend hopper fp16 64", [](const Attend& call) { return fits_attend_hopper(call, DType::fp16, 64); });
}

}  // namespace cplab::kernels::cuda::hopper
