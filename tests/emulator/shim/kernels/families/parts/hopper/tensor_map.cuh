// Stands in for tensor_map.cuh: tensor maps that say what they mean (shim/cuda.h). Each source has its own
// functions, because the CUDA library has others of these names.
#pragma once

#include <cuda.h>

#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda::hopper {

static inline CUtensorMap tensor_map(const DeviceView& view, int rows) {
  return {view, rows};
}
static inline CUtensorMap accumulator_map(const DeviceView& view, int rows) {
  return {view, rows, 64};
}
static inline CUtensorMap heads_map(const DeviceView& view, int rows) {
  return {view, rows};
}

}  // namespace cplab::kernels::cuda::hopper
