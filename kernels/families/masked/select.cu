// Launches of the selection of keys; see select.cuh.
#include "kernels/families/masked/select.cuh"

#include "kernels/families/masked/masked.hpp"

namespace cplab::kernels::cuda {

void launch_select_keys(const SelectParams& params, CUstream_st* stream) {
  const std::int32_t rows = params.full ? params.bias.rows : 1;
  if (rows == 0 || params.bias.heads == 0 || params.bias.width == 0 || (!params.full && params.keys == 0))
    return;
  const dim3 grid(static_cast<unsigned>(rows), static_cast<unsigned>(params.bias.heads));
  if (params.bias.dtype == DType::fp64)
    select_keys<double><<<grid, select_threads, 0, stream>>>(params);
  else
    select_keys<float><<<grid, select_threads, 0, stream>>>(params);
}

std::span<const NamedKernel> key_selections() {
  constexpr KernelShape threads = {.threads = select_threads};
  static const NamedKernel list[] = {{"select_keys", "fp32", kernel_function<select_keys<float>>(threads)},
                                     {"select_keys", "fp64", kernel_function<select_keys<double>>(threads)}};
  return list;
}

}  // namespace cplab::kernels::cuda
