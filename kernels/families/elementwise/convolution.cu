// The short convolution before Q, K and V, its adjoint, and the gradient of its factors; see elementwise.hpp.
// A thread walks along a column and keeps the last W rows of it in registers: each row is read once, and W -
// 1 more at the border of each tile.
#include <cstdint>

#include "kernels/families/elementwise/elementwise.hpp"
#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda {
namespace {

constexpr int convolve_threads = 128;
constexpr int column_threads = 32, row_threads = 16;  // of a filter's gradient

// One column of a chunk's rows, with those of the halo on one side, by their distance from the chunk's first.
template <class T>
struct ColumnOfChunk {
  const DeviceView &rows, &halo;
  const DeviceChunk& tile;
  bool behind;  // on which side the halo lies
  int head, column;

  __device__ T operator()(int p) const {
    const int total = tile.before + tile.count + tile.after,
              beside = static_cast<int>(behind ? tile.right_exponent : tile.left_exponent);
    if (p >= 0 && p < total)
      return load_element_as<T>(rows.data, rows.dtype,
                                row_offset(rows, tile.row - tile.before + p, head) + column);
    const int row = behind ? p - total : p + beside;
    if (row < 0 || row >= beside) return T(0);
    return load_element_as<T>(halo.data, halo.dtype, row_offset(halo, tile.state + row, head) + column);
  }
};

// `window` holds the rows at p, p - step, p - 2 step, ...; before the first p those without p itself.
template <class T>
__device__ void fill_window(T (&window)[most_taps], const ColumnOfChunk<T>& at, int first, int step,
                            int taps) {
#pragma unroll
  for (int n = 0; n + 1 < most_taps; ++n) window[n] = n + 1 < taps ? at(first - (n + 1) * step) : T(0);
  window[most_taps - 1] = T(0);
}
template <class T>
__device__ void move_window(T (&window)[most_taps], T next) {
#pragma unroll
  for (int n = most_taps - 1; n > 0; --n) window[n] = window[n - 1];
  window[0] = next;
}

template <class T>
__global__ void __launch_bounds__(convolve_threads) convolve_tile(const __grid_constant__ ConvolveParams p) {
  const DeviceChunk tile = p.tiles[blockIdx.x];
  const int head = static_cast<int>(blockIdx.y), step = p.reverse ? -1 : 1,
            first = p.reverse ? tile.before + tile.count - 1 : tile.before;
  for (int x = static_cast<int>(threadIdx.x); x < p.from.width; x += convolve_threads) {
    const ColumnOfChunk<T> at{p.from, p.halo, tile, p.reverse, head, x};
    const std::int64_t factors = row_offset(p.filter, 0, head) + std::int64_t{x} * p.taps;
    T factor[most_taps], window[most_taps];
#pragma unroll
    for (int n = 0; n < most_taps; ++n)
      factor[n] =
          n < p.taps ? load_element_as<T>(p.filter.data, p.filter.dtype, factors + p.taps - 1 - n) : T(0);
    fill_window(window, at, first, step, p.taps);
    for (int t = 0; t < tile.count; ++t) {
      move_window(window, at(first + t * step));
      T sum = 0;
#pragma unroll
      for (int n = most_taps - 1; n >= 0; --n)
        if (n < p.taps) sum += factor[n] * window[n];
      const int row = tile.row - tile.before + first + t * step;
      store_element_as<T>(sum, p.into.data, p.into.dtype, row_offset(p.into, row, head) + x);
    }
  }
}

// A thread block has 32 columns of a head and all tiles; its rows of threads take every 16th of these, and
// what they have summed is added in one order.
template <class T>
__global__ void __launch_bounds__(column_threads* row_threads)
    filter_gradient_of_head(const __grid_constant__ FilterGradientParams p) {
  __shared__ T sums[row_threads][most_taps][column_threads];
  const int lane = static_cast<int>(threadIdx.x) % column_threads,
            group = static_cast<int>(threadIdx.x) / column_threads, head = static_cast<int>(blockIdx.y),
            x = static_cast<int>(blockIdx.x) * column_threads + lane;
  T sum[most_taps] = {};
  for (int n = group; n < p.count && x < p.from.width; n += row_threads) {
    const DeviceChunk tile = p.tiles[n];
    const ColumnOfChunk<T> rows{p.from, p.halo, tile, true, head, x},
        dout{p.dout, p.halo, tile, true, head, x};
    const int last = tile.before + tile.count - 1;
    T window[most_taps];
    fill_window(window, dout, last, -1, p.taps);
    for (int t = last; t >= tile.before; --t) {
      move_window(window, dout(t));
      const T value = rows(t);
#pragma unroll
      for (int far = 0; far < most_taps; ++far)
        if (far < p.taps) sum[far] += value * window[far];
    }
  }
#pragma unroll
  for (int far = 0; far < most_taps; ++far) sums[group][far][lane] = sum[far];
  __syncthreads();
  const int far = group;
  if (far >= p.taps || x >= p.from.width) return;
  T total = 0;
  for (int n = 0; n < row_threads; ++n) total += sums[n][far][lane];
  store_element_as<T>(total, p.dfilter.data, p.dfilter.dtype,
                      row_offset(p.dfilter, 0, head) + std::int64_t{x} * p.taps + p.taps - 1 - far);
}

}  // namespace

void launch_convolve(const ConvolveParams& p, CUstream_st* stream) {
  if (p.count == 0 || p.from.heads == 0 || p.from.width == 0) return;
  const dim3 blocks(static_cast<unsigned>(p.count), static_cast<unsigned>(p.from.heads));
  if (p.from.dtype == DType::fp64)
    convolve_tile<double><<<blocks, convolve_threads, 0, stream>>>(p);
  else
    convolve_tile<float><<<blocks, convolve_threads, 0, stream>>>(p);
}

void launch_filter_gradient(const FilterGradientParams& p, CUstream_st* stream) {
  if (p.from.heads == 0 || p.from.width == 0) return;
  const dim3 blocks(static_cast<unsigned>((p.from.width + column_threads - 1) / column_threads),
                    static_cast<unsigned>(p.from.heads));
  if (p.from.dtype == DType::fp64)
    filter_gradient_of_head<double><<<blocks, column_threads * row_threads, 0, stream>>>(p);
  else
    filter_gradient_of_head<float><<<blocks, column_threads * row_threads, 0, stream>>>(p);
}

std::span<const NamedKernel> convolution_kernels() {
  constexpr KernelShape tile{.threads = convolve_threads}, head{.threads = column_threads * row_threads};
  static const NamedKernel kernels[] = {
      {"convolve", "fp32", kernel_function<convolve_tile<float>>(tile)},
      {"convolve", "fp64", kernel_function<convolve_tile<double>>(tile)},
      {"filter_gradient", "fp32", kernel_function<filter_gradient_of_head<float>>(head)},
      {"filter_gradient", "fp64", kernel_function<filter_gradient_of_head<double>>(head)},
  };
  return kernels;
}

}  // namespace cplab::kernels::cuda
