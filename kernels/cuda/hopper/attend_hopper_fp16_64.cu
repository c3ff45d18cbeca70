// Forward attention for Hopper: fp16, head size 64.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

namespace {

bool fits(const Attend& call) {
  return fits_attend_hopper(call, DType::fp16, 64);
}

}  // namespace

// Costs: microseconds, see makespan().
std::vector<AttendVariant> attend_hopper_fp16_64() {
  return {
      attend_hopper_variant<__half, 64, 3>("attend hopper fp16 64", 1.505f, fits),
      attend_hopper_variant<__half, 64, 2>("attend hopper fp16 64, 128 rows", 1.138f, fits),
      attend_hopper_variant<__half, 64, 1>("attend hopper fp16 64, 64 rows", 0.855f, fits),
  };
}

}  // namespace cplab::kernels::cuda::hopper
