// The frame of the row-wise kernels: a group of lanes, a power of two of them within a warp, does one row of
// one head.
#pragma once

#include <cstdint>

#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

constexpr int group_threads = 256;

struct RowGrid {
  std::uint64_t rows_times_heads = 0;
  std::uint32_t rows = 0;
  std::uint32_t heads = 0;
  std::int32_t log2_lanes = 0;
  bool heads_first = true;  // neighbouring groups take neighbouring heads, else neighbouring rows
};

// The row that a group is to do. Inactive groups only take part in what a whole warp must do together.
struct Group {
  bool active;
  std::int32_t row, head;
  std::int32_t lane, lanes;
};

// Whether the next kernel may begin only when all before this one has ended: it can then read, without
// waiting, what this one does not write.
template <class Operation>
__device__ bool waits_first(const Operation& operation) {
  if constexpr (requires { operation.waits_first; }) return operation.waits_first;
  return false;
}

// All lanes of a warp call Operation::run together, the same number of times.
template <class Operation>
__global__ void __launch_bounds__(group_threads)
    row_groups(const __grid_constant__ Operation operation, const __grid_constant__ RowGrid grid) {
  if (!waits_first(operation)) launch_dependents();
  wait_on_dependent_grids();
  if (waits_first(operation)) launch_dependents();
  const std::int32_t lanes = 1 << grid.log2_lanes;
  const std::uint32_t group_of_block = threadIdx.x >> grid.log2_lanes;
  const std::uint32_t first_of_warp = (threadIdx.x & ~31U) >> grid.log2_lanes;
  const std::uint64_t groups_per_block = group_threads >> grid.log2_lanes;
  const std::uint64_t step = gridDim.x * groups_per_block;
  const std::uint32_t inner = grid.heads_first ? grid.heads : grid.rows;
  for (std::uint64_t base = blockIdx.x * groups_per_block; base + first_of_warp < grid.rows_times_heads;
       base += step) {
    const std::uint64_t at = base + group_of_block;
    std::uint32_t outer_index = 0;
    std::uint32_t inner_index = 0;
    if (grid.rows_times_heads <= 0xffffffffU) {  // the shorter division suffices
      outer_index = static_cast<std::uint32_t>(at) / inner;
      inner_index = static_cast<std::uint32_t>(at) - outer_index * inner;
    } else {
      outer_index = static_cast<std::uint32_t>(at / inner);
      inner_index = static_cast<std::uint32_t>(at % inner);
    }
    operation.run(Group{.active = at < grid.rows_times_heads,
                        .row = static_cast<std::int32_t>(grid.heads_first ? outer_index : inner_index),
                        .head = static_cast<std::int32_t>(grid.heads_first ? inner_index : outer_index),
                        .lane = static_cast<std::int32_t>(threadIdx.x) & (lanes - 1),
                        .lanes = lanes});
  }
}

}  // namespace cplab::kernels::cuda
