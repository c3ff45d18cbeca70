// Tensor maps (CUtensorMap): how TMA addresses a view.
#pragma once

#include <cuda.h>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda::hopper {

// For tiles of `rows` rows and all columns of one head, laid out as [column group][row][128 bytes] with the
// 128-byte swizzle. A map of a view without rows is never used. Throws std::runtime_error if the driver
// refuses.
CUtensorMap tensor_map(const DeviceView& view, int rows);

// For tiles of `rows` rows and 128 bytes of columns: a column group.
CUtensorMap group_map(const DeviceView& view, int rows);

// For fp32 tiles of `rows` rows and 64 columns, as [column / 32][row][32], likewise: what dq is accumulated
// by.
CUtensorMap accumulator_map(const DeviceView& view, int rows);

// For tiles of `rows` rows and heads_of_map heads of a view of one fp32 number a row and head, its heads side
// by side, as [row][head].
constexpr int heads_of_map = 4;  // the least that TMA moves: 16 bytes
CUtensorMap heads_map(const DeviceView& view, int rows);

}  // namespace cplab::kernels::cuda::hopper
