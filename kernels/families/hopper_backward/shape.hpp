// How the fused backward kernels for Hopper are written: tile heights and names. Device code and prediction
// read the same numbers.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernels.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

constexpr auto hopper_backward_tile_rows = static_cast<std::int32_t>(measured("hopper_backward_rows"));
// The kernel that adds to dq in any order has these too, at head size 128, for calls with few tiles.
constexpr std::int32_t hopper_backward_small_tile_rows = 64;

// "attend_backward hopper fused bf16 128, 64 keys"; "... ordered bf16 128"; "... chains bf16 64"
std::string hopper_backward_fused_name(DType dtype, int head_size,
                                       std::int32_t tile_rows = hopper_backward_tile_rows);
std::string hopper_backward_ordered_name(DType dtype, int head_size);
std::string hopper_backward_chains_name(DType dtype, int head_size);

}  // namespace cplab::kernels::cuda
