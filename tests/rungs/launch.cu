// Launching the rungs; see rung.hpp.
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>

#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/families/parts/hopper/tensor_map.cuh"
#include "tests/rungs/ladder.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

std::vector<std::string> rung_names() {
  std::vector<std::string> names;
  for (const RungKernel& rung : ladder) names.emplace_back(rung.name);
  return names;
}

std::function<void(CUstream_st*)> bind_rung(int n, const Problem& problem) {
  const RungKernel& rung = ladder[n];
  const void* const kernel = reinterpret_cast<const void*>(rung.kernel);
  const std::size_t shared_bytes = rung.memory_bytes + 1024;  // shared_memory()
  const auto params = std::make_shared<RungParams>(rung_params(problem, tensor_map));
  const int tiles = (problem.S + rung.rows - 1) / rung.rows * problem.heads;
  params->blocks = rung.persistent ? std::min(tiles, device_sms()) : tiles;
  require_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes)),
               rung.name);
  return [=, &rung](CUstream_st* stream) {
    void* arguments[] = {params.get()};
    require_cuda(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(params->blocks)),
                                  dim3(static_cast<unsigned>(rung.threads)), arguments, shared_bytes, stream),
                 rung.name);
  };
}

}  // namespace cplab::kernels::cuda::hopper::rungs
