// Standard normal values; see normal_values.hpp.
#include "kernels/normal_values.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

namespace cplab::kernels {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): the number at this place of the seed's sequence, in steps of 2^-24.
__device__ float uniform(std::uint64_t seed, std::int64_t place) {
  std::uint64_t z = seed + 0x9E3779B97F4A7C15ull * static_cast<std::uint64_t>(place + 1);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  z ^= z >> 31;
  return static_cast<float>((z >> 40) + 1) * 0x1p-24f;  // (0, 1]
}

// Two values of two numbers (Box and Muller 1958).
__global__ void normal_values(void* data, DType dtype, std::int64_t count, std::uint64_t seed) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; 2 * i < count; i += stride) {
    const float radius = sqrtf(-2 * logf(uniform(seed, 2 * i)));
    float values[2];
    sincospif(2 * uniform(seed, 2 * i + 1), &values[0], &values[1]);
    for (int n = 0; n < 2 && 2 * i + n < count; ++n) {
      const float value = radius * values[n];
      switch (dtype) {
        case DType::fp64: static_cast<double*>(data)[2 * i + n] = value; break;
        case DType::fp32: static_cast<float*>(data)[2 * i + n] = value; break;
        case DType::bf16: static_cast<__nv_bfloat16*>(data)[2 * i + n] = __float2bfloat16(value); break;
        case DType::fp16: static_cast<__half*>(data)[2 * i + n] = __float2half(value); break;
      }
    }
  }
}

}  // namespace

int queue_normal(CudaStream stream, void* data, DType dtype, std::int64_t count, std::uint64_t seed) {
  constexpr int blocks = 1024, threads = 256;
  normal_values<<<blocks, threads, 0, stream>>>(data, dtype, count, seed);
  return cudaGetLastError();
}

}  // namespace cplab::kernels
