// Linear attention with transitions of every token in fp32.
#include "kernels/families/linear/gated/launch.cuh"

namespace cplab::kernels::cuda {

std::vector<LinearKernel> gated_fp32_kernels() {
  return gated::kernels_of<float>("fp32");
}

}  // namespace cplab::kernels::cuda
