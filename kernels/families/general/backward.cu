// The backward of softmax attention for any width and dtype: backward.cuh without a mask.
#include "kernels/families/general/general.hpp"
#include "kernels/families/general/launch.cuh"
#include "kernels/families/general/no_mask.cuh"

namespace cplab::kernels::cuda {
namespace {

template <class T>
void launch_backward(const AttendBackwardParams& params, CUstream_st* stream) {
  if (params.by_k.count > 0 && params.k.heads > 0) launch_general_dkv<NoMask<T>>(params, stream);
  if (params.by_q.count > 0 && params.q.heads > 0) launch_general_dq<NoMask<T>>(params, stream);
}

template <class T>
AttendBackwardKernel kernel_of(DType accumulator) {
  static const KernelFunction functions[] = {
      kernel_function<attend_backward_general_dkv<NoMask<T>>>(general_shape),
      kernel_function<attend_backward_general_dq<NoMask<T>>>(general_shape)};
  return {.name = general_backward_name(accumulator),
          .bind = bind_parameters<launch_backward<T>, AttendBackwardParams>,
          .functions = functions};
}

}  // namespace

std::vector<AttendBackwardKernel> general_backward_kernels() {
  return {
      kernel_of<float>(DType::fp32),
#ifdef CPLAB_FULL_KERNELS
      kernel_of<double>(DType::fp64),
#endif
  };
}

}  // namespace cplab::kernels::cuda
