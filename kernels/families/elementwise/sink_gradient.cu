// The gradient of the sinks: for each query head a sum over all rows, by one thread block, whose threads and
// then warps add in one order. See elementwise.hpp.
#include <cstdint>

#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/launch.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {
namespace {

constexpr int sink_threads = 512;

template <class T>
__global__ void __launch_bounds__(sink_threads)
    sink_gradient_of_head(const __grid_constant__ SinkGradientParams params) {
  __shared__ T sums[sink_threads / 32];
  const int head = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  const T sink = load_first<T>(params.sink, 0, head);
  T sum = 0;
  for (int row = thread; row < params.lse.rows; row += sink_threads) {
    const T lse = load_first<T>(params.lse, row, head);
    if (lse == minus_infinity<T>()) continue;
    sum -= exp(sink - lse) * load_first<T>(params.delta, row, head);
  }
  for (int distance = 16; distance > 0; distance /= 2) sum += __shfl_xor_sync(~0U, sum, distance);
  if (thread % 32 == 0) sums[thread / 32] = sum;
  __syncthreads();
  if (thread != 0) return;
  for (int warp = 1; warp < sink_threads / 32; ++warp) sum += sums[warp];
  store_element_as<T>(sum, params.dsink.data, params.dsink.dtype, row_offset(params.dsink, 0, head));
}

}  // namespace

void launch_sink_gradient(const SinkGradientParams& p, CUstream_st* stream) {
  if (p.dsink.heads == 0) return;
  const auto heads = static_cast<unsigned>(p.dsink.heads);
  if (p.dsink.dtype == DType::fp64)
    sink_gradient_of_head<double><<<heads, sink_threads, 0, stream>>>(p);
  else
    sink_gradient_of_head<float><<<heads, sink_threads, 0, stream>>>(p);
}

std::span<const NamedKernel> sink_gradient_kernels() {
  static const NamedKernel kernels[] = {
      {"sink_gradient", "fp32", kernel_function<sink_gradient_of_head<float>>({.threads = sink_threads})},
      {"sink_gradient", "fp64", kernel_function<sink_gradient_of_head<double>>({.threads = sink_threads})},
  };
  return kernels;
}

}  // namespace cplab::kernels::cuda
