// What this repository says of the device and its kernels against what the CUDA runtime says: budgets of the
// architecture, registers and shared memory of every kernel, thread blocks of a multiprocessor. Exit 0: all
// equal, 1: not, 77: no GPU, or one whose architecture is not in the table.
#include <cuda_runtime_api.h>

#include <cstdint>
#include <iostream>
#include <string>

#include "kernels/compiled.hpp"
#include "kernels/cuda.hpp"
#include "kernels/families/parts/cuda_error.hpp"

namespace cplab {
namespace {

using namespace kernels::cuda;

int failures = 0;

void compare(const std::string& what, std::int64_t ours, std::int64_t runtime) {
  if (ours == runtime) return;
  ++failures;
  std::cout << what << ": ours " << ours << ", CUDA " << runtime << '\n';
}

std::int64_t attribute(cudaDeviceAttr which) {
  int value = 0;
  require_cuda(cudaDeviceGetAttribute(&value, which, 0), "cudaDeviceGetAttribute");
  return value;
}

void compare_budgets(const Architecture& gpu) {
  compare("registers of a multiprocessor", gpu.registers,
          attribute(cudaDevAttrMaxRegistersPerMultiprocessor));
  compare("registers of a block", gpu.block_registers, attribute(cudaDevAttrMaxRegistersPerBlock));
  compare("shared memory of a multiprocessor", gpu.shared_bytes,
          attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  compare("shared memory of a block", gpu.block_shared_bytes,
          attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  compare("shared memory reserved", gpu.reserved_shared_bytes,
          attribute(cudaDevAttrReservedSharedMemoryPerBlock));
  compare("warps", gpu.warps, attribute(cudaDevAttrMaxThreadsPerMultiProcessor) / 32);
  compare("blocks", gpu.blocks, attribute(cudaDevAttrMaxBlocksPerMultiprocessor));
  compare("threads of a block", gpu.block_threads, attribute(cudaDevAttrMaxThreadsPerBlock));
}

void compare_kernel(const Architecture& gpu, const CompiledKernel& kernel) {
  const std::string name = kernel.entry->name();
  const CompiledCode* code = kernel.code_for(gpu);
  if (code == nullptr) {
    std::cout << name << ": the driver compiles it; not compared\n";
    return;
  }
  cudaFuncAttributes attributes{};
  require_cuda(cudaFuncGetAttributes(&attributes, kernel.address), "cudaFuncGetAttributes");
  compare(name + ", registers", code->registers, attributes.numRegs);
  compare(name + ", static shared memory", code->static_shared_bytes,
          static_cast<std::int64_t>(attributes.sharedSizeBytes));
  compare(name + ", local memory", code->stack_bytes, static_cast<std::int64_t>(attributes.localSizeBytes));
  int blocks = 0;
  require_cuda(
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel.address, kernel.entry->threads,
                                                    static_cast<std::size_t>(kernel.dynamic_shared_bytes)),
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor");
  compare(name + ", blocks of a multiprocessor", occupancy(gpu, kernel.needs(*code)).blocks, blocks);
}

int run() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::cout << "no GPU\n";
    return 77;
  }
  const std::int64_t major = attribute(cudaDevAttrComputeCapabilityMajor);
  const std::int64_t minor = attribute(cudaDevAttrComputeCapabilityMinor);
  for (const Architecture& gpu : architectures) {
    if (gpu.major != major || gpu.minor != minor) continue;
    compare_budgets(gpu);
    kernels::load_cuda_kernels();  // raises the limits of shared memory
    int count = 0;
    for (const CompiledKernel& kernel : compiled_kernels()->kernels) {
      if (!claims(kernel.entry->claim, gpu)) continue;
      compare_kernel(gpu, kernel);
      ++count;
    }
    std::cout << "SM " << gpu.name << ": " << count << " kernels, " << failures << " differences\n";
    return failures > 0 ? 1 : 0;
  }
  std::cout << "SM " << major << "." << minor << " is in no table of ours\n";
  return 77;
}

}  // namespace
}  // namespace cplab

int main() {
  return cplab::run();
}
