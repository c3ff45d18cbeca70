// What a build that lacks GPU code or NCCL has instead of a Measurer.
#include "calibrate/between_nodes.hpp"
#include "calibrate/measurer.hpp"
#include "kernels/compiled.hpp"
#include "kernels/no_gpu_code.hpp"

namespace cplab::measure {

std::unique_ptr<Measurer> gpu_measurer(const GpuRequest&) {
  if (kernels::cuda::compiled_kernels() == nullptr) throw Error(kernels::no_gpu_code);
  throw Error(
      "this build has no NCCL, over which messages are measured; with nccl.h beside the CUDA toolkit "
      "`make build` finds it");
}

std::string new_nccl_id() {
  throw Error("this build has no NCCL");
}

void measure_between_nodes(const std::string&, int, int, std::uint64_t, Measurement&) {
  throw Error("this build has no NCCL");
}

}  // namespace cplab::measure
