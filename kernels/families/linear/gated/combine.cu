// LinearCombine with a transition: T S, or T^T S, of every state that is named, in fp32. A thread block has
// 32 x 32 elements of one product.
#include <cstdint>

#include "kernels/families/linear/gated/gated.hpp"
#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/launch.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {
namespace {

constexpr int combine_threads = 256, edge = 32;

struct Part {
  const DeviceChunk& chunk;
  std::int32_t head, row, column;
};
__device__ inline Part part_of(const GatedCombineParams& p) {
  const std::int32_t columns = (p.into.width + edge - 1) / edge, rows = (p.state_rows + edge - 1) / edge;
  auto rest = static_cast<std::int32_t>(blockIdx.x);
  const std::int32_t column = rest % columns * edge;
  rest /= columns;
  const std::int32_t row = rest % rows * edge;
  rest /= rows;
  return {p.chunks[rest / p.into.heads], rest % p.into.heads, row, column};
}

// 0 outside the state.
__device__ inline float element_of(const DeviceView& view, const GatedCombineParams& p, const Part& part,
                                   std::int32_t row, std::int32_t column) {
  if (row >= p.state_rows || column >= view.width) return 0;
  return load_element_as<float>(view.data, view.dtype,
                                row_offset(view, part.chunk.state * p.state_rows + row, part.head) + column);
}

__global__ void __launch_bounds__(combine_threads)
    gated_combine(const __grid_constant__ GatedCombineParams p) {
  __shared__ float transition[edge][edge + 1], from[edge][edge + 1];
  wait_on_dependent_grids();
  const Part part = part_of(p);
  const bool resets = (part.chunk.flags & DeviceChunk::resets) != 0;
  if (resets && p.write == Write::add) return;
  const std::int32_t x = static_cast<std::int32_t>(threadIdx.x) % edge;
  const std::int32_t y = static_cast<std::int32_t>(threadIdx.x) / edge;
  constexpr std::int32_t step = combine_threads / edge;
  const bool diagonal = p.transition.width == 1;
  float sums[edge / step] = {};
  for (std::int32_t k = 0; k < p.state_rows && !resets && !diagonal; k += edge) {
    __syncthreads();
    for (std::int32_t i = y; i < edge; i += step) {
      // [row of the product][k], read along its rows in either case.
      if (p.reverse)
        transition[x][i] = element_of(p.transition, p, part, k + i, part.row + x);
      else
        transition[i][x] = element_of(p.transition, p, part, part.row + i, k + x);
      from[i][x] = element_of(p.from, p, part, k + i, part.column + x);
    }
    __syncthreads();
    for (std::int32_t n = 0; n < edge / step; ++n)
#pragma unroll 8
      for (std::int32_t i = 0; i < edge; ++i) sums[n] += transition[y + n * step][i] * from[i][x];
  }
  for (std::int32_t n = 0; n < edge / step; ++n) {
    const std::int32_t row = part.row + y + n * step, column = part.column + x;
    if (row >= p.state_rows || column >= p.into.width) continue;
    if (diagonal && !resets)
      sums[n] = element_of(p.transition, p, part, row, 0) * element_of(p.from, p, part, row, column);
    if (p.write == Write::add) sums[n] += element_of(p.into, p, part, row, column);
    store_element_as<float>(sums[n], p.into.data, p.into.dtype,
                            row_offset(p.into, part.chunk.state * p.state_rows + row, part.head) + column);
  }
}

void launch(const GatedCombineParams& p, CUstream_st* stream) {
  const std::int64_t rows = (p.state_rows + edge - 1) / edge, columns = (p.into.width + edge - 1) / edge;
  launch_dependent(gated_combine, static_cast<unsigned>(p.chunk_count * p.into.heads * rows * columns),
                   combine_threads, 0, stream, p);
}

}  // namespace

std::vector<LinearKernel> gated_combine_kernels() {
  static const KernelFunction functions[] = {kernel_function<gated_combine>({.threads = combine_threads})};
  return {{.name = "linear_combine gated fp32",
           .functions = functions,
           .bind_combine = bind_parameters<launch, GatedCombineParams>}};
}

}  // namespace cplab::kernels::cuda
