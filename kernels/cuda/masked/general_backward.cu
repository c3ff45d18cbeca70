// Launches of the backward for any width, dtype and number of bias heads, without atomics.
#include <cstdint>
#include <utility>

#include "kernels/cuda/masked/general_dbias.cuh"
#include "kernels/cuda/masked/general_gradients.cuh"
#include "kernels/cuda/masked/masked.hpp"

namespace cplab::kernels::cuda {
namespace {

std::int32_t passes(std::int32_t width, std::int32_t columns) {
  return (width + columns - 1) / columns;
}

dim3 grid_of(std::int32_t tiles, std::int32_t heads, std::int32_t columns = 1) {
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(heads), static_cast<unsigned>(columns)};
}

template <class T>
void launch_general(const MaskedBackwardParams& params, CUstream_st* stream) {
  const AttendBackwardParams& call = params.tile;
  const std::int32_t dq_passes = passes(call.q.width, GeneralShape<T>::columns);
  const std::int32_t dv_passes = passes(call.v.width, GeneralShape<T>::columns);
  const bool pairs = params.mask.full;
  if (call.by_k.count > 0 && call.k.heads > 0) {
    attend_masked_general_dkv<T>
        <<<grid_of(call.by_k.count, call.k.heads, dq_passes + dv_passes), general_threads, 0, stream>>>(
            params, dq_passes);
    if (params.dbias.data != nullptr && !pairs)
      attend_masked_general_dbias_keys<T>
          <<<grid_of(call.by_k.count, params.dbias.heads), general_threads, 0, stream>>>(params);
  }
  if (call.by_q.count > 0 && call.q.heads > 0) {
    attend_masked_general_dq<T>
        <<<grid_of(call.by_q.count, call.q.heads, dq_passes), general_threads, 0, stream>>>(params);
    if (params.dbias.data != nullptr && pairs)
      attend_masked_general_dbias_pairs<T>
          <<<grid_of(call.by_q.count, params.dbias.heads), general_threads, 0, stream>>>(params);
  }
}

template <class T>
MaskedBackwardKernel kernel_named(std::string name) {
  static const KernelFunction functions[] = {
      kernel_function<attend_masked_general_dkv<T>>(general_shape),
      kernel_function<attend_masked_general_dq<T>>(general_shape),
      kernel_function<attend_masked_general_dbias_keys<T>>(general_shape),
      kernel_function<attend_masked_general_dbias_pairs<T>>(general_shape)};
  return {.name = std::move(name), .launch = launch_general<T>, .functions = functions};
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
