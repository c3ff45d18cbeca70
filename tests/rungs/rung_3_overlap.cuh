// Rung 3: a warpgroup's tensor cores work while its exp unit does. P V of a block is queued behind Q K^T of
// the next one, whose softmax then runs beneath it:
//
//   tensor cores   S(n) = Q K(n)   out += P(n-1) V(n-1)   S(n+1)   out += P(n) V(n)   ...
//   the rest                       P(n) = softmax(S(n))            P(n+1) = ...
//
// Batches end in the order in which they were queued: "all but one" means that S(n) is there and that P V may
// still run. The price is registers: scores (64), P that a product still reads (32) and out (64) at once.
// (FlashAttention-3, arXiv 2407.08608.)
//
// Measured on an H200 in November 2026 by a prototype, (2, 8192, 16): 644 TFLOP/s full (rung 2: 517), 646
// causal; the largest step but the second warpgroup.
//
// A tile's end is slow now that its middle is not: rung 4 stores out in whole tiles.
#pragma once

#include "tests/rungs/rung_2_two_warpgroups.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

// `count` blocks went through the rings before.
template <class Memory>
__device__ __forceinline__ void mainloop_overlapped(const RungParams& params, Memory& memory,
                                                    const Tile& tile, std::uint32_t q, int first_row,
                                                    int count, Rows& rows) {
  float scores[keys / 8][4];
  std::uint32_t p[keys / 16][4];
  start_rows(rows);
  std::uint32_t k = await(memory.k, count);
  issue_qk(scores, q, k);
  warpgroup_wait<0>();
  warpgroup_fence_operand(scores);
  release(memory.k, count);
  mask_scores(scores, params, first_row, 0);
  softmax_step(scores, rows, params.scale_log2);
  pack_operand<__nv_bfloat16>(scores, p);
  if (tile.blocks > 1) k = await(memory.k, count + 1);
#pragma unroll 1
  for (int n = 1; n < tile.blocks; ++n) {
    issue_qk(scores, q, k);
    issue_pv(rows, p, await(memory.v, count + n - 1));
    warpgroup_wait<1>();
    warpgroup_fence_operand(scores);
    release(memory.k, count + n);
    mask_scores(scores, params, first_row, n * keys);
    softmax_step(scores, rows, params.scale_log2);
    // The exponentials are to run beneath P V, yet the compiler moves them below the wait, where P is needed
    // first. It moves nothing across a branch: the wait for the next keys is one.
    warpgroup_fence_operand(scores);
    if (n + 1 < tile.blocks) k = await(memory.k, count + n + 1);
    warpgroup_wait<0>();
    warpgroup_fence_operand(rows.out);
    release(memory.v, count + n - 1);
    rescale_out(rows);
    pack_operand<__nv_bfloat16>(scores, p);
  }
  issue_pv(rows, p, await(memory.v, count + tile.blocks - 1));
  warpgroup_wait<0>();
  warpgroup_fence_operand(rows.out);
  release(memory.v, count + tile.blocks - 1);
}

__global__ void __launch_bounds__(3 * warpgroup_threads, 1)
    overlap_kernel(const __grid_constant__ RungParams params) {
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
    mainloop_overlapped(params, memory, tile, shared_address(memory.q[0][warpgroup - 1]), first_row, 0, rows);
    finish_rows(rows, params, tile.head, first_row);
    write_rows(rows, params, tile.head, first_row);
  }
}

}  // namespace cplab::kernels::cuda::hopper::rungs
