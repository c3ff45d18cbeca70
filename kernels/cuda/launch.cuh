// Launching a kernel so that its blocks come up while the one before on the stream ends (programmatic
// dependent launch, CUDA Programming Guide; SM 9.0 and later). Such a kernel calls wait_for_earlier_kernels()
// before it touches anything that another kernel writes or reads.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/cuda/cuda_error.hpp"

namespace cplab::kernels::cuda {

// Whether the code that the device runs was compiled with wait_for_earlier_kernels(): code for SM 8.0 that a
// newer GPU runs has none.
template <class Kernel>
bool waits_for_earlier_kernels(Kernel* kernel) {
  static const bool waits = [&] {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90 &&
           device_major() >= 9;
  }();
  return waits;
}

// Errors are left to cudaGetLastError.
template <class... Parameters>
void launch_early(void (*kernel)(Parameters...), unsigned blocks, int threads, std::size_t shared_bytes,
                  CUstream_st* stream, const Parameters&... parameters) {
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = waits_for_earlier_kernels(kernel) ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, parameters...);
}

}  // namespace cplab::kernels::cuda
