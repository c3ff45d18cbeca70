// How the forward kernels for Hopper are written: tile heights, stages, thread blocks. Device code and
// prediction read the same numbers.
#pragma once

#include <string>

#include "kernels/families/head_sizes.hpp"
#include "kernels/kernels.hpp"
#include "kernels/tiles/measured_constants.hpp"

namespace cplab::kernels::cuda {

// The size of values, by that of keys: keys of 192 have values of 128.
constexpr int hopper_forward_value_size(int head_size) {
  return head_size == 192 ? 128 : head_size;
}
constexpr HeadSizes hopper_forward_sizes(int head_size) {
  return {head_size, hopper_forward_value_size(head_size)};
}

// Tiles have 64 rows for each consumer warpgroup: this many warpgroups, or fewer. Beyond head size 128 there
// are no fewer.
constexpr int hopper_forward_warpgroups(int head_size) {
  return static_cast<int>(head_size == 64 ? measured("hopper_forward_64_rows")
                                          : measured("hopper_forward_128_rows")) /
         64;
}
constexpr int hopper_forward_least_warpgroups(int head_size) {
  return head_size > 128 ? hopper_forward_warpgroups(head_size) : 1;
}
// Keys of a block. At head size 256 there is shared memory for two blocks of 80, as in FlashAttention 3.
constexpr int hopper_forward_keys(int head_size) {
  return head_size > 192 ? 80 : 128;
}
// Buffers of Q. Beyond head size 128 there is room for one.
constexpr int hopper_forward_q_stages(int head_size) {
  return head_size > 128 ? 1 : 2;
}
// How many of their thread blocks a multiprocessor holds: two of one warpgroup where shared memory has room
// for both. Then the products of one tile run beside the loads, the softmax and the stores of another.
constexpr int hopper_forward_blocks_together(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 1 ? 2 : 1;
}
// Which tiles have a second kernel, whose warpgroups do not take turns: see WorkTables::out_of_turn.
constexpr bool hopper_forward_goes_out_of_turn(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 3 && measured("ping_pong") != 0;
}
// Whole blocks of keys, K and V, that their shared memory holds. A block comes late now and then, because the
// L2 cache is busy; the tiles that most calls take have more blocks on the way.
constexpr int hopper_forward_stages(int head_size, int warpgroups) {
  return head_size == 64 && warpgroups == 3 ? static_cast<int>(measured("hopper_forward_64_stages")) : 2;
}

// "attend hopper bf16 64, 128 rows"; "attend hopper bf16 192x128"
std::string hopper_forward_name(DType dtype, int head_size, int warpgroups);

}  // namespace cplab::kernels::cuda
