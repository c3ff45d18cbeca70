// Linear attention with transitions of every token in fp16.
#include "kernels/families/linear/gated/launch.cuh"

namespace cplab::kernels::cuda {

std::vector<LinearKernel> gated_fp16_kernels() {
  return gated::kernels_of<__half>("fp16");
}

}  // namespace cplab::kernels::cuda
