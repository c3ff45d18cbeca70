// Forward attention for Hopper: bf16 and fp16, head size 128.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

namespace {

// Microseconds for 128 keys, measured with tiles of one height each.
constexpr TileCosts costs = {1.097, 1.465, 0};

bool fits_bf16(const Attend& call) {
  return fits_attend_hopper(call, DType::bf16, 128);
}

bool fits_fp16(const Attend& call) {
  return fits_attend_hopper(call, DType::fp16, 128);
}

}  // namespace

std::vector<AttendVariant> attend_hopper_bf16_128() {
  return {
      attend_hopper_variant<__nv_bfloat16, 128, 2>("attend hopper bf16 128", costs, fits_bf16),
      attend_hopper_variant<__nv_bfloat16, 128, 1>("attend hopper bf16 128, 64 rows", costs, fits_bf16),
  };
}

std::vector<AttendVariant> attend_hopper_fp16_128() {
  return {
      attend_hopper_variant<__half, 128, 2>("attend hopper fp16 128", costs, fits_fp16),
      attend_hopper_variant<__half, 128, 1>("attend hopper fp16 128, 64 rows", costs, fits_fp16),
  };
}

}  // namespace cplab::kernels::cuda::hopper
