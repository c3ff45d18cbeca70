// How the backward for Hopper with tiles apart is written.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/kernels.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

constexpr auto hopper_backward_apart_tile_rows = static_cast<std::int32_t>(measured("hopper_backward_rows"));

// "attend_backward hopper bf16 128"
std::string hopper_backward_deterministic_name(DType dtype, int head_size);

}  // namespace cplab::kernels::cuda
