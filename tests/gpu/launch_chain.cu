// How many kernels of a chain of programmatic dependent launches are under way together: a first one that
// takes its time, so many that let the next begin and then wait, and a last that waits for nobody and says
// whether the first was over. gpu_tile.cpp has its number from here. `make gpu` builds it; exit 3: no such
// GPU.
#include <cuda_runtime.h>

#include <cstdio>
#include <exception>

#include "kernels/families/parts/cuda_error.hpp"
#include "kernels/families/parts/launch.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::testing {
namespace {

using kernels::cuda::launch_dependent;
using kernels::cuda::launch_dependents;
using kernels::cuda::require_cuda;
using kernels::cuda::wait_on_dependent_grids;

__global__ void first(volatile int* over) {
  launch_dependents();
  wait_on_dependent_grids();
  const long long start = clock64();
  while (clock64() - start < 2'000'000) {
  }
  *over = 1;
}

__global__ void between() {
  launch_dependents();
  wait_on_dependent_grids();
}

__global__ void last(const volatile int* over, int* seen) {
  *seen = *over;
}

// Whether the last began before the first was over, with so many between.
bool begins_early(int* numbers, int count, std::size_t shared_bytes) {
  CUstream_st* const stream = cudaStreamPerThread;
  require_cuda(cudaMemsetAsync(numbers, 0, 2 * sizeof(int), stream), "cudaMemsetAsync");
  require_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  launch_dependent<volatile int*>(first, 1, 32, 0, stream, numbers);
  for (int n = 0; n < count; ++n) launch_dependent(between, 1, 32, 0, stream);
  launch_dependent<const volatile int*, int*>(last, 1, 32, shared_bytes, stream, numbers, numbers + 1);
  require_cuda(cudaGetLastError(), "a launch");
  int seen = 0;
  require_cuda(cudaMemcpyAsync(&seen, numbers + 1, sizeof(seen), cudaMemcpyDeviceToHost, stream),
               "cudaMemcpyAsync");
  require_cuda(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return seen == 0;
}

void measure() {
  constexpr int times = 4, most_between = 9;
  constexpr std::size_t much = 220 << 10;  // as attention has
  require_cuda(cudaFuncSetAttribute(last, cudaFuncAttributeMaxDynamicSharedMemorySize, much),
               "cudaFuncSetAttribute");
  int* numbers = nullptr;
  require_cuda(cudaMalloc(&numbers, 2 * sizeof(int)), "cudaMalloc");
  for (const std::size_t shared_bytes : {std::size_t{0}, much})
    for (int count = 0; count <= most_between; ++count) {
      int early = 0;
      for (int n = 0; n < times; ++n) early += begins_early(numbers, count, shared_bytes) ? 1 : 0;
      std::printf("%zu bytes of shared memory, %d kernels between: began early in %d of %d\n", shared_bytes,
                  count, early, times);
    }
  require_cuda(cudaFree(numbers), "cudaFree");
}

}  // namespace
}  // namespace cplab::testing

int main() {
  if (cplab::kernels::cuda::device_major() != 9) {
    std::fprintf(stderr, "launch_chain: no GPU of compute capability 9\n");
    return 3;
  }
  try {
    cplab::testing::measure();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
