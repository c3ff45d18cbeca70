// LinearScan and LinearCombine: both move states once and do next to nothing with them. A thread has four
// columns of one row of a state.
#include <cstdint>

#include "kernels/families/elementwise/row_groups.cuh"
#include "kernels/families/linear/decay.cuh"
#include "kernels/families/linear/linear.hpp"
#include "kernels/families/parts/launch.cuh"

namespace cplab::kernels::cuda {
namespace {

// The row of a state and its columns that a thread has.
struct Elements {
  std::int32_t row, column, count;
  bool active;
};

__device__ inline Elements elements_of(const LinearParams& p, std::int32_t part, std::int32_t width) {
  const std::int32_t groups = (width + 3) / 4;
  const std::int32_t at =
      part * static_cast<std::int32_t>(blockDim.x) + static_cast<std::int32_t>(threadIdx.x);
  const std::int32_t column = at % groups * 4;
  return {.row = at / groups,
          .column = column,
          .count = min(width - column, 4),
          .active = at < p.state_rows * groups};
}

// Loads of so many states are in flight before the first of them is overwritten.
constexpr std::int32_t scan_ahead = 8;

// What a scan needs of a chunk.
template <class T>
struct Step {
  std::int32_t state = 0, edge = -1, flags = 0;
  T power = 0, to_edge = 0;
};

template <class T>
__global__ void __launch_bounds__(linear_threads) linear_scan(const __grid_constant__ LinearParams p) {
  wait_on_dependent_grids();
  const BlockPlace place = block_place(p.cut, p.state.heads);
  const Elements mine = elements_of(p, place.part, p.state.width);
  if (!mine.active) return;
  const bool aligned = fours_aligned(p.state);
  const bool sums = p.final_state.data != nullptr;
  const bool final_aligned = sums && fours_aligned(p.final_state);
  const double slope = p.chunks.slopes[place.head];
  const std::int32_t end = p.chunks.groups[place.chunk + 1];
  const auto at = [&](const DeviceView& view, std::int32_t state) {
    return row_offset(view, state * p.state_rows + mine.row, place.head) + mine.column;
  };
  Four<T> passed = {}, sum = {};
  for (std::int32_t first = p.chunks.groups[place.chunk]; first < end; first += scan_ahead) {
    // Everything is loaded before the first store, behind which the compiler could move no load.
    Four<T> own[scan_ahead] = {};
    Step<T> steps[scan_ahead];
#pragma unroll
    for (std::int32_t i = 0; i < scan_ahead; ++i)
      if (first + i < end) {
        const DeviceChunk& chunk = p.chunks.list[first + i];
        steps[i].state = chunk.state;
        steps[i].flags = chunk.flags;
        steps[i].edge = sums ? p.reverse ? chunk.left : chunk.right : -1;
        own[i] = load_four<T>(p.state, at(p.state, chunk.state), mine.count, aligned);
        steps[i].power = decay<T>(slope, chunk.count);
        if (sums) steps[i].to_edge = decay<T>(slope, p.reverse ? chunk.left_exponent : chunk.right_exponent);
      }
#pragma unroll
    for (std::int32_t i = 0; i < scan_ahead; ++i) {
      if (first + i >= end) break;
      const Step<T>& step = steps[i];
      if ((step.flags & DeviceChunk::resets) != 0) passed = {};
      if (!p.sums_only) store_four(passed, p.state, at(p.state, step.state), mine.count, aligned);
#pragma unroll
      for (int x = 0; x < 4; ++x) passed.value[x] = passed.value[x] * step.power + own[i].value[x];
      const std::int32_t edge = step.edge;
      if (edge < 0) continue;
      if ((step.flags & DeviceChunk::sum_begins) != 0) sum = {};
#pragma unroll
      for (int x = 0; x < 4; ++x) sum.value[x] += own[i].value[x] * step.to_edge;
      if ((step.flags & DeviceChunk::sum_ends) == 0) continue;
      if ((step.flags & DeviceChunk::sum_adds) != 0) {
        const Four<T> held = load_four<T>(p.final_state, at(p.final_state, edge), mine.count, final_aligned);
#pragma unroll
        for (int x = 0; x < 4; ++x) sum.value[x] += held.value[x];
      }
      store_four(sum, p.final_state, at(p.final_state, edge), mine.count, final_aligned);
    }
  }
}

template <class T>
__global__ void __launch_bounds__(linear_threads) linear_combine(const __grid_constant__ LinearParams p) {
  wait_on_dependent_grids();
  const BlockPlace place = block_place(p.cut, p.into.heads);
  const Elements mine = elements_of(p, place.part, p.into.width);
  const DeviceChunk& chunk = p.chunks.list[place.chunk];
  const bool resets = (chunk.flags & DeviceChunk::resets) != 0;
  if (!mine.active || (resets && p.write == Write::add)) return;
  const std::int32_t row = chunk.state * p.state_rows + mine.row;
  const bool aligned = fours_aligned(p.into);
  const std::int64_t target = row_offset(p.into, row, place.head) + mine.column;
  Four<T> sum = {};
  if (!resets) {
    sum = load_four<T>(p.from, row_offset(p.from, row, place.head) + mine.column, mine.count,
                       fours_aligned(p.from));
    Four<T> held = {};
    if (p.write == Write::add) held = load_four<T>(p.into, target, mine.count, aligned);
    const T power = decay<T>(p.chunks.slopes[place.head], chunk.count);
#pragma unroll
    for (int x = 0; x < 4; ++x) sum.value[x] = sum.value[x] * power + held.value[x];
  }
  store_four(sum, p.into, target, mine.count, aligned);
}

template <auto kernel>
void launch(const LinearParams& p, CUstream_st* stream) {
  launch_dependent(kernel, static_cast<unsigned>(p.cut.thread_blocks), linear_threads, 0, stream, p);
}

template <auto kernel>
LinearKernel kernel_named(const char* name) {
  static const KernelFunction functions[] = {kernel_function<kernel>({.threads = linear_threads})};
  return {.name = name, .bind = bind_parameters<launch<kernel>, LinearParams>, .functions = functions};
}

}  // namespace

std::vector<LinearKernel> linear_scan_kernels() {
  return {
      kernel_named<linear_scan<float>>("linear_scan fp32"),
      kernel_named<linear_combine<float>>("linear_combine fp32"),
#ifdef CPLAB_FULL_KERNELS
      kernel_named<linear_scan<double>>("linear_scan fp64"),
      kernel_named<linear_combine<double>>("linear_combine fp64"),
#endif
  };
}

}  // namespace cplab::kernels::cuda
