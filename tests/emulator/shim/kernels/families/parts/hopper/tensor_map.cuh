// Stands in for tensor_map.cuh: tensor maps that say what they mean (shim/cuda.h). Each source has its own
// functions, because the CUDA library has others of these names.
#pragma once

#include <cuda.h>

#include "kernels/tiles/params.hpp"
#include "kernels/tiles/row_space.hpp"

namespace cplab::kernels::cuda::hopper {

static inline CUtensorMap padded_map(const DeviceView& view, int rows, int columns) {
  const bool single = has_single_groups(view);
  return {view, rows, single ? 128 / static_cast<int>(bytes_of(view.dtype)) : columns, single};
}
static inline CUtensorMap tensor_map(const DeviceView& view, int rows) {
  return padded_map(view, rows, view.width);
}
static inline CUtensorMap accumulator_map(const DeviceView& view, int rows) {
  return padded_map(view, rows, 64);
}
static inline CUtensorMap heads_map(const DeviceView& view, int rows) {
  return {view, rows};
}

}  // namespace cplab::kernels::cuda::hopper
