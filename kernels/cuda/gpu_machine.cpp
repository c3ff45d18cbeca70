// Which machine a measurement is of; see tune/gpu_bench.hpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "kernels/cuda/kernel_table.hpp"
#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/tune/gpu_bench.hpp"

namespace cplab::kernels::tune {
namespace {

using cuda::require_cuda;

std::string version(int number) {
  return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10);
}

// "580.159.04", from the first line of what the kernel module says of itself.
std::string driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line, last;
  std::getline(file, line);
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find(' ', at), line.size());
    const std::string word = line.substr(at, end - at);
    if (!word.empty() && word.find_first_not_of("0123456789.") == std::string::npos && last.empty())
      last = word;
    at = end + 1;
  }
  return last.empty() ? "unknown" : last;
}

}  // namespace

Machine machine_of_gpu() {
  int device = 0, driver = 0, runtime = 0;
  cudaDeviceProp properties{};
  require_cuda(cudaGetDevice(&device), "cudaGetDevice");
  require_cuda(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  require_cuda(cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  require_cuda(cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {.gpu = properties.name,
          .compute_capability = std::to_string(properties.major) + "." + std::to_string(properties.minor),
          .sms = properties.multiProcessorCount,
          .driver = driver_version() + ", CUDA " + version(driver),
          .runtime = version(runtime),
          .kernels = build_of_kernels()};
}

cuda::VariantOptions variants_of_gpu(const CallOptions& options) {
  int device = 0;
  require_cuda(cudaGetDevice(&device), "cudaGetDevice");
  return cuda::variants_of_device(options);
}

}  // namespace cplab::kernels::tune
