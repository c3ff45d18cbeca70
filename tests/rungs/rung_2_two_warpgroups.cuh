// Rung 2: two consumer warpgroups, 128 query rows x 128 keys. While one is at its softmax the other
// multiplies, by chance more than by order, and every tile of keys and values that comes to shared memory is
// used twice.
//
// A thread of 384 gets 168 registers (65536 / 384, in steps of 8); a consumer needs 160 for scores, P
// and out alone. So the producer gives registers back and the consumers take them, out of what the block got
// at its launch: 3 x 168 = 504, and 40 + 2 x 232 = 504. A sum above that would wait for ever, though the
// register file has 512.
//
// Measured on an H200 in November 2026 by a prototype, (2, 8192, 16): 517 TFLOP/s full (rung 1: 376), 511
// causal.
//
// Within a warpgroup products and softmax still take turns, and two warpgroups do not fill all of each
// other's gaps: rung 3 overlaps the two inside a warpgroup.
#pragma once

#include "tests/rungs/rung_1_one_warpgroup.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

constexpr int producer_registers = 40, consumer_registers = 232;

__global__ void __launch_bounds__(3 * warpgroup_threads, 1)
    two_warpgroups_kernel(const __grid_constant__ RungParams params) {
  auto& memory = shared_memory<RungMemory<2>>();
  start_barriers(memory);
  const Tile tile = tile_at<128>(params, static_cast<int>(blockIdx.x));
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<producer_registers>();
    if (threadIdx.x != 0) return;
    load_q(params, memory.q[0], memory.q_full[0], tile);
    load_blocks(params, memory, tile, 0);
  } else {
    warpgroup_reg_alloc<consumer_registers>();
    const int first_row = tile.row + 16 * (thread_index() / 32 - 4);
    wait(shared_address(&memory.q_full[0]), 0);
    Rows rows;
    mainloop_in_turn(params, memory, tile, shared_address(memory.q[0][warpgroup - 1]), first_row, rows);
    finish_rows(rows, params, tile.head, first_row);
    write_rows(rows, params, tile.head, first_row);
  }
}

}  // namespace cplab::kernels::cuda::hopper::rungs
