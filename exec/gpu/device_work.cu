// A wait; see device_work.hpp.
#include <cuda_runtime.h>

#include "exec/gpu/device_work.hpp"

namespace cplab {

namespace {

__device__ std::uint64_t now_ns() {
  std::uint64_t time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void spin(std::uint64_t nanoseconds) {
  const std::uint64_t start = now_ns();
  while (now_ns() - start < nanoseconds) __nanosleep(200);
}

}  // namespace

int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace cplab
