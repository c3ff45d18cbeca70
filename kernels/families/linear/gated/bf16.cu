// Linear attention with transitions of every token in bf16.
#include "kernels/families/linear/gated/launch.cuh"

namespace cplab::kernels::cuda {

std::vector<LinearKernel> gated_bf16_kernels() {
  return gated::kernels_of<__nv_bfloat16>("bf16");
}

}  // namespace cplab::kernels::cuda
