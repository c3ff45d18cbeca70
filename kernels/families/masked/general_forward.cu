// The forward of dynamic mask attention for any width and dtype: general/forward.cuh with HeadMask.
#include <utility>

#include "kernels/families/general/launch.cuh"
#include "kernels/families/masked/general_pairs.cuh"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class T>
MaskedKernel kernel_named(std::string name) {
  static const KernelFunction functions[] = {kernel_function<attend_general<HeadMask<T>>>(general_shape)};
  return {.name = std::move(name),
          .bind = bind_parameters<launch_general<HeadMask<T>>, MaskedParams>,
          .functions = functions};
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
