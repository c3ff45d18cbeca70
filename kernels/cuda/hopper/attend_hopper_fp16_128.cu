// Forward attention for Hopper: fp16, head size 128.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

namespace {

// Microseconds for 128 keys, measured with tiles of one height each.
constexpr TileCosts costs = {1.097, 1.465, 0};

bool fits(const Attend& call) {
  return fits_attend_hopper(call, DType::fp16, 128);
}

}  // namespace

std::vector<AttendVariant> attend_hopper_fp16_128() {
  return {
      attend_hopper_variant<__half, 128, 2>("attend hopper fp16 128", costs, fits),
      attend_hopper_variant<__half, 128, 1>("attend hopper fp16 128, 64 rows", costs, fits),
  };
}

}  // namespace cplab::kernels::cuda::hopper
