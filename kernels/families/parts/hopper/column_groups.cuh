// Copies of tiles whose tensor is narrower than they are, or ends within a group of columns.
//
// A tile lies as [column group][row][128 bytes], and a box of several groups says of each whether the tensor
// has it. That a tensor has a part of its last group no such box can say, because the bounds of a tensor map
// are those of each dimension alone. Such a tensor has a map of single groups, of which a copy takes one.
#pragma once

#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// Copies a tile of `groups` groups: copy(0) where one box has them all, else copy(n) for every group n.
template <int groups, class Copy>
__device__ __forceinline__ void by_column_groups(bool single, Copy copy) {
  copy(0);
  if (!single) return;
#pragma unroll
  for (int n = 1; n < groups; ++n) copy(n);
}

}  // namespace cplab::kernels::cuda::hopper
