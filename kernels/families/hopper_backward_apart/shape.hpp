// How the backward for Hopper with tiles apart is written.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/families/head_sizes.hpp"
#include "kernels/kernels.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

constexpr auto hopper_backward_apart_tile_rows = static_cast<std::int32_t>(measured("hopper_backward_rows"));

// The size of values, by that of keys: keys of 192 have values of 128.
constexpr HeadSizes hopper_backward_apart_sizes(int head_size) {
  return {head_size, head_size == 192 ? 128 : head_size};
}
// Whether dk and dv have tiles of their own: beyond head size 128 a consumer has registers for one of them.
constexpr bool hopper_backward_apart_splits_dkv(int head_size) {
  return head_size > 128;
}
// Rows of a block that a tile walks over, as there is shared memory; blocks on the way.
constexpr int hopper_backward_apart_columns(int head_size) {
  return head_size == 64 ? 128 : head_size > 192 ? 32 : 64;
}
constexpr int hopper_backward_apart_stages(int head_size) {
  return head_size == 64 ? 3 : 2;
}

// "attend_backward hopper bf16 128"; "attend_backward hopper bf16 192x128"
std::string hopper_backward_deterministic_name(DType dtype, int head_size);

}  // namespace cplab::kernels::cuda
