// Forward attention for Hopper: bf16, head size 64.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

AttendVariant attend_hopper_bf16_64() {
  return attend_hopper_variant<__nv_bfloat16, 64>(
      "attend hopper bf16 64", [](const Attend& call) { return fits_attend_hopper(call, DType::bf16, 64); });
}

}  // namespace cplab::kernels::cuda::hopper
