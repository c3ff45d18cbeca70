// The backward of dynamic mask attention for any width, dtype and number of bias heads, without atomics:
// general/backward.cuh with HeadMask, and the bias gradient.
#include <utility>

#include "kernels/families/general/launch.cuh"
#include "kernels/families/masked/general_dbias.cuh"
#include "kernels/families/masked/general_pairs.cuh"
#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

template <class T>
void launch_backward(const MaskedBackwardParams& params, CUstream_st* stream) {
  const AttendBackwardParams& call = params.tile;
  const bool pairs = params.mask.full;
  if (call.by_k.count > 0 && call.k.heads > 0) {
    launch_general_dkv<HeadMask<T>>(params, stream);
    if (params.dbias.data != nullptr && !pairs)
      attend_masked_general_dbias_keys<T>
          <<<general_grid(call.by_k.count, params.dbias.heads), general_threads, 0, stream>>>(params);
  }
  if (call.by_q.count > 0 && call.q.heads > 0) {
    launch_general_dq<HeadMask<T>>(params, stream);
    if (params.dtable.data != nullptr)
      attend_masked_general_dtable<T>
          <<<general_grid(call.by_q.count, call.q.heads), general_threads, 0, stream>>>(params);
    if (params.dbias.data != nullptr && pairs)
      attend_masked_general_dbias_pairs<T>
          <<<general_grid(call.by_q.count, params.dbias.heads), general_threads, 0, stream>>>(params);
  }
}

template <class T>
MaskedBackwardKernel kernel_named(std::string name) {
  static const KernelFunction functions[] = {
      kernel_function<attend_backward_general_dkv<HeadMask<T>>>(general_shape),
      kernel_function<attend_backward_general_dq<HeadMask<T>>>(general_shape),
      kernel_function<attend_masked_general_dbias_keys<T>>(general_shape),
      kernel_function<attend_masked_general_dbias_pairs<T>>(general_shape),
      kernel_function<attend_masked_general_dtable<T>>(general_shape)};
  return {.name = std::move(name),
          .bind = bind_parameters<launch_backward<T>, MaskedBackwardParams>,
          .functions = functions};
}

}  // namespace

std::vector<MaskedBackwardKernel> general_masked_backward_kernels() {
  return {
      kernel_named<float>(general_masked_backward_name(DType::fp32)),
#ifdef CPLAB_FULL_KERNELS
      kernel_named<double>(general_masked_backward_name(DType::fp64)),
#endif
  };
}

}  // namespace cplab::kernels::cuda
