// Launches of the forward for any width and dtype; see general_forward.cuh.
#include "kernels/cuda/masked/general_forward.cuh"

#include <cstdint>
#include <utility>

#include "kernels/cuda/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class T>
void launch_general(const MaskedParams& params, CUstream_st* stream) {
  const AttendParams& call = params.tile;
  if (call.work.count == 0 || call.q.heads == 0) return;
  const dim3 grid(static_cast<unsigned>(call.work.count), static_cast<unsigned>(call.q.heads));
  attend_masked_general<T><<<grid, general_threads, 0, stream>>>(params);
}

template <class T>
MaskedKernel kernel_named(std::string name) {
  static const KernelFunction functions[] = {kernel_function<attend_masked_general<T>>(general_shape)};
  return {.name = std::move(name), .launch = launch_general<T>, .functions = functions};
}

}  // namespace

std::vector<MaskedKernel> general_masked_forward_kernels() {
  return {
      kernel_named<float>(general_masked_forward_name(DType::fp32)),
#ifdef CPLAB_FULL_KERNELS
      kernel_named<double>(general_masked_forward_name(DType::fp64)),
#endif
  };
}

}  // namespace cplab::kernels::cuda
