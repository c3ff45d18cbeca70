// Sums over peers' memory; see peer_sum.hpp.
#include "exec/gpu/peer_sum.hpp"

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <algorithm>

namespace cplab {

namespace {

__device__ double widen(double x) {
  return x;
}
__device__ float widen(float x) {
  return x;
}
__device__ float widen(__half x) {
  return __half2float(x);
}
__device__ float widen(__nv_bfloat16 x) {
  return __bfloat162float(x);
}

template <class T, class Wide>
__device__ T narrow(Wide x) {
  if constexpr (sizeof(T) == 8 || sizeof(T) == 4) {
    return x;
  } else {
    return T(x);  // the types of cuda_fp16.h and cuda_bf16.h round to nearest even
  }
}

template <class T>
__device__ T combine(T a, T b, bool maximum) {
  const auto x = widen(a), y = widen(b);
  if (maximum) return y > x || y != y ? b : a;
  return narrow<T>(x + y);
}

constexpr int pack_bytes = 16;  // what one thread loads at once

template <class T>
struct alignas(pack_bytes) Pack {
  static constexpr int count = pack_bytes / sizeof(T);
  T values[count];
};

// The first `packs` of the elements lie in packs, at addresses that are multiples of pack_bytes.
template <class T>
__global__ void sum_peers(PeerSum sum, std::int64_t packs) {
  const std::int64_t first = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = first; i < packs; i += stride) {
    Pack<T> total = static_cast<const Pack<T>*>(sum.from[0])[i];
#pragma unroll 4
    for (int m = 1; m < sum.sources; ++m) {
      const Pack<T> addend = static_cast<const Pack<T>*>(sum.from[m])[i];
      for (int x = 0; x < Pack<T>::count; ++x)
        total.values[x] = combine(total.values[x], addend.values[x], sum.maximum);
    }
    for (int m = 0; m < sum.results; ++m) static_cast<Pack<T>*>(sum.into[m])[i] = total;
  }
  for (std::int64_t i = packs * Pack<T>::count + first; i < sum.elements; i += stride) {
    T total = static_cast<const T*>(sum.from[0])[i];
    for (int m = 1; m < sum.sources; ++m)
      total = combine(total, static_cast<const T*>(sum.from[m])[i], sum.maximum);
    for (int m = 0; m < sum.results; ++m) static_cast<T*>(sum.into[m])[i] = total;
  }
}

template <class T>
void queue(cudaStream_t stream, const PeerSum& sum) {
  constexpr int threads = 256;
  constexpr std::int64_t most_blocks = 512;
  const auto aligned = [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % pack_bytes == 0; };
  const bool all_aligned = std::all_of(sum.from, sum.from + sum.sources, aligned) &&
                           std::all_of(sum.into, sum.into + sum.results, aligned);
  const std::int64_t packs = all_aligned ? sum.elements / Pack<T>::count : 0;
  const std::int64_t work = all_aligned ? packs + 1 : sum.elements;
  const auto blocks =
      static_cast<unsigned>(std::clamp<std::int64_t>((work + threads - 1) / threads, 1, most_blocks));
  sum_peers<T><<<blocks, threads, 0, stream>>>(sum, packs);
}

}  // namespace

int load_peer_sums() {
  for (const auto* kernel :
       {reinterpret_cast<const void*>(sum_peers<double>), reinterpret_cast<const void*>(sum_peers<float>),
        reinterpret_cast<const void*>(sum_peers<__nv_bfloat16>),
        reinterpret_cast<const void*>(sum_peers<__half>)}) {
    cudaFuncAttributes attributes;
    if (const cudaError_t code = cudaFuncGetAttributes(&attributes, kernel); code != cudaSuccess) return code;
  }
  return cudaSuccess;
}

int queue_peer_sum(kernels::CudaStream stream, const PeerSum& sum) {
  if (sum.elements == 0 || sum.results == 0) return cudaSuccess;
  switch (sum.dtype) {
    case kernels::DType::fp64: queue<double>(stream, sum); break;
    case kernels::DType::fp32: queue<float>(stream, sum); break;
    case kernels::DType::bf16: queue<__nv_bfloat16>(stream, sum); break;
    case kernels::DType::fp16: queue<__half>(stream, sum); break;
  }
  return cudaGetLastError();
}

}  // namespace cplab
