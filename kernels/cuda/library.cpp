// What holds for all kernels of this build at once: loading them, listing them.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/cuda.hpp"
#include "kernels/cuda/kernel_table.hpp"
#include "kernels/cuda/linear_table.hpp"
#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/family.hpp"
#include "kernels/families/masked/masked.hpp"
#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/families/products/products.hpp"

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

const Rates& rates_of_device() {
  int device = 0;
  cudaDeviceProp properties{};
  if (cudaGetDevice(&device) != cudaSuccess || cudaGetDeviceProperties(&properties, device) != cudaSuccess) {
    cudaGetLastError();  // not to be found by the next caller
    return shipped_rates(0, 0);
  }
  return shipped_rates(properties.name, properties.multiProcessorCount, properties.major, properties.minor);
}

VariantOptions variants_of_device(const CallOptions& options) {
  return {.choice = options.choice,
          .sm_major = device_major(),
          .sms = std::max(device_sms() - options.reserved_sms, 1),
          .build = built_kernels(),
          .sm_minor = attribute(cudaDevAttrComputeCapabilityMinor),
          .way = options.way,
          .choices = options.choices,
          .only = options.only,
          .reserved_sms = options.reserved_sms,
          .shared_gpu = options.shared_gpu,
          .sums_dkv = options.sums_dkv,
          .rates = options.rates != nullptr ? options.rates : &rates_of_device()};
}

namespace {

// Calls visit(name, kind, tile rows, function) for each kernel that a device of that major compute capability
// can run.
template <class Visit>
void for_each_kernel(int sm_major, Visit visit) {
  const int sm_minor = attribute(cudaDevAttrComputeCapabilityMinor);
  const auto runs = [&](const auto& variant) {
    return (variant.sm_major == 0 || variant.sm_major == sm_major) &&
           has_room(variant.name, sm_major, sm_minor);
  };
  const auto visit_parts = [&](const auto& variant, const char* kind, int tile_rows) {
    if (!runs(variant)) return;
    const std::span<const KernelFunction> functions = kernel_of(variant).functions;
    for (std::size_t n = 0; n < functions.size(); ++n)
      visit(variant.name + (functions.size() == 1 ? "" : ", part " + std::to_string(n + 1)), kind, tile_rows,
            functions[n]);
  };
  for (const AttendVariant& variant : attend_variants(built_kernels()))
    visit_parts(variant, "attend", variant.tile_rows);
  for (const AttendBackwardVariant& variant : attend_backward_variants(built_kernels()))
    visit_parts(variant, "attend_backward", variant.tile_rows);
  for (const LinearVariant& variant : linear_variants(built_kernels()))
    visit_parts(variant, name_of(variant.operation), linear_tokens);
  for (const MaskedVariant& variant : masked_variants(built_kernels()))
    visit_parts(variant, "attend", variant.tile_rows);
  for (const MaskedBackwardVariant& variant : masked_backward_variants(built_kernels()))
    visit_parts(variant, "attend_backward", variant.tile_rows);
  for (const NamedKernel& scan : mask_scans())
    visit(std::string(scan.name) + " " + scan.part, scan.name, cell_rows, scan.function);
  for (const NamedKernel& selection : key_selections())
    visit(std::string(selection.name) + " " + selection.part, selection.name, 0, selection.function);
  for (const NamedKernel& kernel : elementwise_kernels())
    visit(std::string(kernel.name) + " " + kernel.part, kernel.name, 0, kernel.function);
  for (const NamedKernel& kernel : product_kernels())
    visit(std::string(kernel.name) + " " + kernel.part, kernel.name, kernel.function.shape.tile_rows,
          kernel.function);
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
                                                  const cuda::KernelFunction& function) {
    cudaFuncAttributes attributes{};
    const cudaError_t error = cudaFuncGetAttributes(&attributes, function.address);  // loads the kernel
    if (cuda::has_no_code(error)) {
      cudaGetLastError();  // not to be found by the next caller
      throw std::runtime_error("this build has no code of kernel \"" + name + "\" for " +
                               cuda::device_text(device) +
                               " (CMAKE_CUDA_ARCHITECTURES says for which it has)");
    }
    cuda::require_cuda(error, "cudaFuncGetAttributes");
    if (function.shared_bytes == 0) return;
    cuda::require_cuda(cudaFuncSetAttribute(function.address, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                            static_cast<int>(function.shared_bytes)),
                       "cudaFuncSetAttribute");
  });
}

std::vector<CudaKernel> cuda_kernels() {
  int devices = 0;
  const bool has_device = cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0;
  if (!has_device) cudaGetLastError();
  std::vector<CudaKernel> kernels;
  cuda::for_each_kernel(cuda::device_major(), [&](std::string name, const char* kind, int tile_rows,
                                                  const cuda::KernelFunction& function) {
    CudaKernel entry{
        .name = std::move(name), .kind = kind, .tile_rows = tile_rows, .shared_bytes = function.shared_bytes};
    cudaFuncAttributes attributes{};
    if (has_device && cudaFuncGetAttributes(&attributes, function.address) == cudaSuccess) {
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
