// Tensor maps: what the copy engine of Hopper needs to know of a view to bring tiles of it.
#pragma once

#include <cuda.h>

#include "kernels/kernels.hpp"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda::hopper {

// Tiles of `rows` rows and all columns of one head, as [column group][row][columns of 128 bytes], with the
// 128-byte swizzle. A map of a view without rows is never read. Throws std::runtime_error if the driver
// refuses.
CUtensorMap tensor_map(const DeviceView& view, int rows);

// Of fp32: tiles of 64 rows and 64 columns, as [column / 32][row][32], likewise.
CUtensorMap sum_map(const DeviceView& view);

}  // namespace cplab::kernels::cuda::hopper
