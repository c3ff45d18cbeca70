// Rung 4: out leaves as it came, in tiles. A store from registers writes four bytes a lane, 16 a row: 32 of
// them a thread, each of half sectors of memory. Instead a warpgroup puts its 64 rows where its queries were,
// which nobody else reads and nobody needs any more, and one thread starts the copy of them all; rows past S
// are cut off by the tensor map. The swizzle that the copy engine undoes also keeps lanes apart: eight rows
// of four lanes hit 32 banks.
//
// Measured on an H200 in November 2026 by a prototype, full: (2, 8192, 16) 683 TFLOP/s (rung 3: 644),
// (8, 2048, 16) 635 (573), (1, 1024, 16) 529 (444). The shorter the sequence, the more a tile's end counts.
//
// Beginning and end of every tile are still bare: nothing is loaded while out is written. Rung 5 lets a
// thread block go on to the next tile.
#pragma once

#include "tests/rungs/rung_3_overlap.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

// One warpgroup, numbered from 0: its rows to shared memory at `tile` and from there to out. Returns true in
// the one thread that has started the copy and waited until the tile was read.
__device__ __forceinline__ bool store_rows(const Rows& rows, const RungParams& params, unsigned char* tile,
                                           const Tile& of, int warpgroup) {
  named_barrier_sync(1 + warpgroup, warpgroup_threads);  // all products have read the queries
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 16 * (thread_index() / 32 % 4) + 8 * half + lane_index() / 4;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int byte = n / 8 * q_half_bytes + row * 128 + n % 8 * 16 + lane_index() % 4 * 4;
      *reinterpret_cast<std::uint32_t*>(tile + (byte ^ (row & 7) << 4)) =
          Element<__nv_bfloat16>::pack(rows.out[n][2 * half], rows.out[n][2 * half + 1]);
    }
  }
  fence_view_async_shared();  // of every thread, before the barrier: the copy engine reads by another way
  named_barrier_sync(1 + warpgroup, warpgroup_threads);
  if (thread_index() % warpgroup_threads != 0) return false;
  tma_store(params.out, of.row + 64 * warpgroup, of.head, shared_address(tile));
  tma_store_wait();
  return true;
}

__global__ void __launch_bounds__(3 * warpgroup_threads, 1)
    tma_store_kernel(const __grid_constant__ RungParams params) {
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
    unsigned char* const q = memory.q[0][warpgroup - 1];
    const int first_row = tile.row + 16 * (thread_index() / 32 - 4);
    wait(shared_address(&memory.q_full[0]), 0);
    Rows rows;
    mainloop_overlapped(params, memory, tile, shared_address(q), first_row, 0, rows);
    finish_rows(rows, params, tile.head, first_row);
    store_rows(rows, params, q, tile, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper::rungs
