// Tensor maps (CUtensorMap): how TMA addresses a view.
#pragma once

#include <cuda.h>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda::hopper {

// Makes a map for tiles of `rows` rows and all columns of one head, laid out as [column
// group][row][128 bytes] with the 128-byte swizzle. A map of a view without rows is never used. Throws
// std::runtime_error if the driver refuses.
CUtensorMap tensor_map(const DeviceView& view, int rows);
// Makes one for tiles of `columns` columns, which may be more than the view has: what is beyond is zero where
// a tile is loaded, and is not stored. Where has_single_groups() (row_space.hpp) its tiles are copied group
// by group (column_groups.cuh); so are those of the maps below.
CUtensorMap padded_map(const DeviceView& view, int rows, int columns);

// Makes a map for tiles of `rows` rows and one column group, 128 bytes wide.
CUtensorMap group_map(const DeviceView& view, int rows);

// Makes a map for fp32 tiles of `rows` rows and 64 columns, laid out as [column / 32][row][32] with
// the same swizzle. Tiles of dq are added to the dQ accumulator through it.
CUtensorMap accumulator_map(const DeviceView& view, int rows);

// Makes a map for tiles of `rows` rows and heads_of_map heads, laid out as [row][head], of a view that
// has one fp32 number for each row and head, and whose heads lie side by side.
constexpr int heads_of_map = 4;  // the least that TMA moves: 16 bytes
CUtensorMap heads_map(const DeviceView& view, int rows);

}  // namespace cplab::kernels::cuda::hopper
