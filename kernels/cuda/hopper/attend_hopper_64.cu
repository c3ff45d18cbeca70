// Forward attention for Hopper: bf16 and fp16, head size 64.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

namespace {

// Microseconds for 128 keys, measured with tiles of one height each.
constexpr TileCosts costs = {0.855, 1.138, 1.505};

bool fits_bf16(const Attend& call) {
  return fits_attend_hopper(call, DType::bf16, 64);
}

bool fits_fp16(const Attend& call) {
  return fits_attend_hopper(call, DType::fp16, 64);
}

}  // namespace

std::vector<AttendVariant> attend_hopper_bf16_64() {
  return {
      attend_hopper_variant<__nv_bfloat16, 64, 3>("attend hopper bf16 64", costs, fits_bf16),
      attend_hopper_variant<__nv_bfloat16, 64, 2>("attend hopper bf16 64, 128 rows", costs, fits_bf16),
      attend_hopper_variant<__nv_bfloat16, 64, 1>("attend hopper bf16 64, 64 rows", costs, fits_bf16),
  };
}

std::vector<AttendVariant> attend_hopper_fp16_64() {
  return {
      attend_hopper_variant<__half, 64, 3>("attend hopper fp16 64", costs, fits_fp16),
      attend_hopper_variant<__half, 64, 2>("attend hopper fp16 64, 128 rows", costs, fits_fp16),
      attend_hopper_variant<__half, 64, 1>("attend hopper fp16 64, 64 rows", costs, fits_fp16),
  };
}

}  // namespace cplab::kernels::cuda::hopper
