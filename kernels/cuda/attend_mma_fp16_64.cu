// Forward attention on tensor cores: fp16, head size 64.
#include "kernels/cuda/attend_mma.cuh"
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {

AttendVariant attend_mma_fp16_64() {
  return attend_mma_variant<__half, 64>(
      "attend mma fp16 64", [](const Attend& call) { return fits_attend_mma(call, DType::fp16, 64); });
}

}  // namespace cplab::kernels::cuda
