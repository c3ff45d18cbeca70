// Forward attention for Hopper: fp16, head size 128.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendVariant attend_hopper_fp16_128() {
  return attend_hopper_variant<__half, 128>("attend hopper fp16 128", [](const Attend& call) {
    return fits_attend_hopper(call, DType::fp16, 128);
  });
}

}  // namespace cplab::kernels::cuda::hopper
