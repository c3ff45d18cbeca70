// What a build that lacks GPU code or NCCL has instead of a Measurer.
#include "calibrate/measurer.hpp"
#include "kernels/compiled.hpp"
#include "kernels/no_gpu_code.hpp"

namespace cplab::measure {

std::unique_ptr<Measurer> gpu_measurer(int, std::uint64_t, const std::vector<AttentionShape>&) {
  if (kernels::cuda::compiled_kernels() == nullptr) throw Error(kernels::no_gpu_code);
  throw Error(
      "this build has no NCCL, over which messages are measured; with nccl.h beside the CUDA toolkit "
      "`make build` finds it");
}

}  // namespace cplab::measure
