// Forward attention for Hopper: fp16, head size 128.
#include "kernels/cuda/hopper/attend_hopper_launch.cuh"

namespace cplab::kernels::cuda::hopper {

namespace {

bool fits(const Attend& call) {
  return fits_attend_hopper(call, DType::fp16, 128);
}

}  // namespace

// Costs: microseconds, see makespan().
std::vector<AttendVariant> attend_hopper_fp16_128() {
  return {
      attend_hopper_variant<__half, 128, 2>("attend hopper fp16 128", 1.465f, fits),
      attend_hopper_variant<__half, 128, 1>("attend hopper fp16 128, 64 rows", 1.097f, fits),
  };
}

}  // namespace cplab::kernels::cuda::hopper
