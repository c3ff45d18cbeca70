// Programmatic dependent launch (CUDA Programming Guide; SM 9.0 and later): the kernel's thread blocks start
// while the kernel before it on the stream ends. Such a kernel calls wait_on_dependent_grids() before it
// touches anything that another kernel writes or reads. It may say itself, by launch_dependents(), when the
// next one can start. Then more than two may be under way, but the wait of C for B includes that of B for A:
// B is done only when its thread blocks are, in each of which some thread has waited for A, and what A wrote
// is visible then. If B waits before it calls launch_dependents(), all before B is done when C begins, and
// C need wait only for what B itself writes (AttendBackwardParams::follows_preparation).
// An event, a copy, or a kernel launched without the attribute waits for all of a kernel in any case.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

#include "kernels/families/parts/cuda_error.hpp"

namespace cplab::kernels::cuda {

// Whether wait_on_dependent_grids() waits in the code that the device runs: compiled for SM 8.0, which a
// newer GPU may run, it does nothing.
template <class Kernel>
bool has_dependent_launch(Kernel* kernel) {
  static const bool waits = [&] {
    cudaFuncAttributes attributes{};
    return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90 &&
           device_major() >= 9;
  }();
  return waits;
}

// Errors are left to cudaGetLastError.
template <class... Parameters>
void launch_dependent(void (*kernel)(Parameters...), unsigned blocks, int threads, std::size_t shared_bytes,
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
  config.numAttrs = has_dependent_launch(kernel) ? 1 : 0;
  (void)cudaLaunchKernelEx(&config, kernel, parameters...);
}

}  // namespace cplab::kernels::cuda
