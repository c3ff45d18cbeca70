// Rung 5: one thread block a multiprocessor, which takes tile after tile at a fixed stride. The rings go on
// counting from tile to tile and the queries have two buffers, so that the producer brings the next tile's
// queries and first keys while the consumers end this one; barriers are set up once. A buffer of queries is
// free again when out, which was put there, has been read by the copy engine.
//
// Measured on an H200 in November 2026 by a prototype, full: (2, 8192, 16) 697 TFLOP/s (rung 4: 683),
// (8, 2048, 16) 675 (635), (1, 1024, 16) 521 (529: one tile a block, nothing to overlap). Causal (2, 8192,
// 16) 608 (655): a fixed stride deals long and short tiles unevenly, where the hardware gives the next tile
// to whoever is done.
//
// The product's kernel (kernels/families/hopper_forward/kernel.cuh) is the next step: segments and masks,
// packed sequences, grouped heads, any strides, merging into what is there, head size 64.
#pragma once

#include "tests/rungs/rung_4_tma_store.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

constexpr int q_buffers = 2;
using Buffers = PipelineIndex<q_buffers>;

__global__ void __launch_bounds__(3 * warpgroup_threads, 1)
    persistent_kernel(const __grid_constant__ RungParams params) {
  auto& memory = shared_memory<RungMemory<2, q_buffers>>();
  start_barriers(memory);
  const int tiles = (params.S + 127) / 128 * params.heads;
  const int warpgroup = warpgroup_index();
  int count = 0;  // blocks of keys before this tile
  int taken = 0;  // tiles before it
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<producer_registers>();
    if (threadIdx.x != 0) return;
    for (int index = static_cast<int>(blockIdx.x); index < tiles; index += params.blocks, ++taken) {
      const Tile tile = tile_at<128>(params, index);
      const int buffer = Buffers::stage(taken);
      wait(shared_address(&memory.q_empty[buffer]), Buffers::parity(taken) ^ 1);
      load_q(params, memory.q[buffer], memory.q_full[buffer], tile);
      load_blocks(params, memory, tile, count);
      count += tile.blocks;
    }
  } else {
    warpgroup_reg_alloc<consumer_registers>();
#pragma unroll 1
    for (int index = static_cast<int>(blockIdx.x); index < tiles; index += params.blocks, ++taken) {
      const Tile tile = tile_at<128>(params, index);
      const int buffer = Buffers::stage(taken);
      unsigned char* const q = memory.q[buffer][warpgroup - 1];
      const int first_row = tile.row + 16 * (thread_index() / 32 - 4);
      wait(shared_address(&memory.q_full[buffer]), Buffers::parity(taken));
      Rows rows;
      mainloop_overlapped(params, memory, tile, shared_address(q), first_row, count, rows);
      count += tile.blocks;
      finish_rows(rows, params, tile.head, first_row);
      if (store_rows(rows, params, q, tile, warpgroup - 1)) arrive(shared_address(&memory.q_empty[buffer]));
    }
  }
}

}  // namespace cplab::kernels::cuda::hopper::rungs
