// Forward attention on tensor cores: fp16, head size 128.
#include "kernels/cuda/attend_mma.cuh"
#include "kernels/cuda/attend_mma.hpp"

namespace cplab::kernels::cuda {

AttendVariant attend_mma_fp16_128() {
  return attend_mma_variant<__half, 128>(
      "attend mma fp16 128", [](const Attend& call) { return fits_attend_mma(call, DType::fp16, 128); });
}

}  // namespace cplab::kernels::cuda
