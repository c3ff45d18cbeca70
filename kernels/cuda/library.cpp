// What holds for all kernels of this build at once: loading them, listing them.
#include <cuda_runtime_api.h>

#include <stdexcept>

#include "kernels/cuda.hpp"
#include "kernels/cuda/elementwise/elementwise.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/linear_table.hpp"
#include "kernels/cuda/parts/cuda_error.hpp"

namespace cplab::kernels {
namespace cuda {

void require_cuda(int code, const char* call) {
  const auto error = static_cast<cudaError_t>(code);
  if (error == cudaSuccess) return;
  throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(error));
}

namespace {

// An attribute of the current device; 0 without one.
int attribute(cudaDeviceAttr which) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) == cudaSuccess && cudaDeviceGetAttribute(&value, which, device) == cudaSuccess)
    return value;
  cudaGetLastError();  // not to be found by the next caller
  return 0;
}

}  // namespace

int device_major() {
  return attribute(cudaDevAttrComputeCapabilityMajor);
}

int device_sms() {
  return attribute(cudaDevAttrMultiProcessorCount);
}

namespace {

// Calls visit(name, kind, tile rows, __global__ function, dynamic shared memory) for each kernel that a
// device of that major compute capability can run.
template <class Visit>
void for_each_kernel(int sm_major, Visit visit) {
  const auto runs = [&](const auto& variant) {
    return variant.sm_major == 0 || variant.sm_major == sm_major;
  };
  for (const AttendVariant& variant : attend_variants(built_kernels())) {
    if (!runs(variant)) continue;
    const AttendKernel& kernel = kernel_of(variant);
    for (const void* const* function = kernel.functions; *function != nullptr; ++function)
      visit(variant.name, "attend", variant.tile_rows, *function, kernel.shared_bytes);
  }
  for (const AttendBackwardVariant& variant : attend_backward_variants(built_kernels())) {
    if (!runs(variant)) continue;
    const AttendBackwardKernel& kernel = kernel_of(variant);
    for (int n = 0; kernel.functions[n] != nullptr; ++n) {
      const std::string part = kernel.functions[1] == nullptr ? "" : ", part " + std::to_string(n + 1);
      visit(variant.name + part, "attend_backward", variant.tile_rows, kernel.functions[n],
            kernel.shared_bytes[n]);
    }
  }
  for (const LinearVariant& variant : linear_variants(built_kernels())) {
    if (!runs(variant)) continue;
    const LinearKernel& kernel = kernel_of(variant);
    for (int n = 0; kernel.functions[n] != nullptr; ++n) {
      const std::string part = kernel.functions[1] == nullptr ? "" : ", part " + std::to_string(n + 1);
      visit(variant.name + part, name_of(variant.operation), linear_tokens, kernel.functions[n],
            kernel.shared_bytes[n]);
    }
  }
  for (const NamedKernel& kernel : elementwise_kernels())
    visit(std::string(kernel.name), kernel.kind, 0, kernel.kernel, std::int64_t{0});
}

// Errors which say that the build lacks code for the device, rather than that something is wrong with the
// machine.
bool has_no_code(cudaError_t error) {
  return error == cudaErrorNoKernelImageForDevice || error == cudaErrorInvalidDeviceFunction ||
         error == cudaErrorUnsupportedPtxVersion || error == cudaErrorInvalidKernelImage;
}

std::string device_text(int device) {
  int major = 0;
  int minor = 0;
  require_cuda(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device),
               "cudaDeviceGetAttribute");
  require_cuda(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device),
               "cudaDeviceGetAttribute");
  return "GPU " + std::to_string(device) + ", compute capability " + std::to_string(major) + "." +
         std::to_string(minor);
}

}  // namespace
}  // namespace cuda

void load_cuda_kernels() {
  int device = 0;
  cuda::require_cuda(cudaGetDevice(&device), "cudaGetDevice");
  cuda::for_each_kernel(cuda::device_major(), [&](const std::string& name, const char*, int,
                                                  const void* kernel, std::int64_t shared) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel);  // loads the kernel
    if (cuda::has_no_code(error)) {
      cudaGetLastError();  // not to be found by the next caller
      throw std::runtime_error("this build has no code of kernel \"" + name + "\" for " +
                               cuda::device_text(device) +
                               " (CMAKE_CUDA_ARCHITECTURES says for which it has)");
    }
    cuda::require_cuda(error, "cudaFuncGetAttributes");
    if (shared == 0) return;
    cuda::require_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)),
        "cudaFuncSetAttribute");
  });
}

std::vector<CudaKernel> cuda_kernels() {
  int devices = 0;
  const bool has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  if (!has_device) cudaGetLastError();
  std::vector<CudaKernel> kernels;
  cuda::for_each_kernel(cuda::device_major(), [&](std::string name, const char* kind, int tile_rows,
                                                  const void* kernel, std::int64_t shared) {
    CudaKernel entry{.name = std::move(name), .kind = kind, .tile_rows = tile_rows, .shared_bytes = shared};
    cudaFuncAttributes attributes{};
    if (has_device && cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess) {
      entry.registers = attributes.numRegs;
      entry.shared_bytes += static_cast<std::int64_t>(attributes.sharedSizeBytes);
      entry.local_bytes = static_cast<std::int64_t>(attributes.localSizeBytes);
    } else if (has_device) {
      cudaGetLastError();
    }
    kernels.push_back(std::move(entry));
  });
  return kernels;
}

}  // namespace cplab::kernels
