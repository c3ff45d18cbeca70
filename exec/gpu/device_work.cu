// A wait and random numbers; see device_work.hpp.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
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

// splitmix64 (Steele, Lea, Flood 2014) of the element's number.
__device__ float uniform(std::uint64_t seed, std::int64_t element) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(element + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<float>(z >> 40) * 0x1p-23f - 1.0f;
}

__global__ void fill_random(void* data, kernels::DType dtype, std::int64_t count, std::uint64_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float value = uniform(seed, i);
    switch (dtype) {
      case kernels::DType::fp64: static_cast<double*>(data)[i] = value; break;
      case kernels::DType::fp32: static_cast<float*>(data)[i] = value; break;
      case kernels::DType::bf16: static_cast<__nv_bfloat16*>(data)[i] = __float2bfloat16(value); break;
      case kernels::DType::fp16: static_cast<__half*>(data)[i] = __float2half(value); break;
    }
  }
}

}  // namespace

int queue_spin(kernels::CudaStream stream, std::uint64_t nanoseconds) {
  spin<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

int queue_random(kernels::CudaStream stream, void* data, kernels::DType dtype, std::int64_t count,
                 std::uint64_t seed) {
  constexpr int blocks = 1024, threads = 256;
  fill_random<<<blocks, threads, 0, stream>>>(data, dtype, count, seed);
  return cudaGetLastError();
}

}  // namespace cplab
