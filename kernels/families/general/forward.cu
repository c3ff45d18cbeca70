// The forward of softmax attention for any width and dtype: forward.cuh without a mask.
#include "kernels/families/general/general.hpp"
#include "kernels/families/general/launch.cuh"
#include "kernels/families/general/no_mask.cuh"

namespace cplab::kernels::cuda {
namespace {

template <class T>
AttendKernel kernel_of(DType accumulator) {
  static const KernelFunction functions[] = {kernel_function<attend_general<NoMask<T>>>(general_shape)};
  return {.name = general_forward_name(accumulator),
          .bind = bind_parameters<launch_general<NoMask<T>>, AttendParams>,
          .functions = functions};
}

}  // namespace

std::vector<AttendKernel> general_forward_kernels() {
  return {
      kernel_of<float>(DType::fp32),
#ifdef CPLAB_FULL_KERNELS
      kernel_of<double>(DType::fp64),
#endif
  };
}

}  // namespace cplab::kernels::cuda
