// How many kernels of a chain of programmatic dependent launches are under way together: a first one that
// takes its time, so many that let the next begin and then wait, and a last that waits for nobody and says
// whether the first was over. tests/gpu/gpu_tile.cpp has its number from here.
//   nvcc -arch=sm_90a -o launch_chain scripts/gpu/launch_chain.cu && ./launch_chain
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

namespace {

void require(cudaError_t error) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s\n", cudaGetErrorString(error));
  std::exit(1);
}

__device__ void begin() {
  asm volatile("griddepcontrol.launch_dependents;");
  asm volatile("griddepcontrol.wait;" ::: "memory");
}

__global__ void first(volatile int* over, long long cycles) {
  begin();
  const long long start = clock64();
  while (clock64() - start < cycles) {
  }
  *over = 1;
}
__global__ void between() {
  begin();
}
__global__ void last(const volatile int* over, int* seen) {
  *seen = *over;
}

template <class... Parameters>
void launch(void (*kernel)(Parameters...), int shared_bytes, Parameters... parameters) {
  require(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  config.dynamicSmemBytes = static_cast<std::size_t>(shared_bytes);
  config.stream = cudaStreamPerThread;
  config.attrs = &attribute;
  config.numAttrs = 1;
  require(cudaLaunchKernelEx(&config, kernel, parameters...));
}

}  // namespace

int main() {
  constexpr int times = 4;
  int* numbers = nullptr;
  require(cudaMalloc(&numbers, 2 * sizeof(int)));
  for (const int shared_bytes : {0, 220 << 10})
    for (int count = 0; count < 10; ++count) {
      int early = 0;
      for (int n = 0; n < times; ++n) {
        require(cudaMemset(numbers, 0, 2 * sizeof(int)));
        require(cudaDeviceSynchronize());
        launch<volatile int*, long long>(first, 0, numbers, 2'000'000);
        for (int k = 0; k < count; ++k) launch(between, 0);
        launch<const volatile int*, int*>(last, shared_bytes, numbers, numbers + 1);
        int seen = 0;
        require(cudaStreamSynchronize(cudaStreamPerThread));
        require(cudaMemcpy(&seen, numbers + 1, sizeof(seen), cudaMemcpyDeviceToHost));
        early += seen == 0 ? 1 : 0;
      }
      std::printf("%d bytes of shared memory, %d kernels between: began early in %d of %d\n", shared_bytes,
                  count, early, times);
    }
  return 0;
}
