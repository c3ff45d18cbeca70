// Rung 1: somebody else brings the tiles. One thread of a producer warpgroup starts copies of whole tiles
// (TMA), one consumer warpgroup multiplies them by wgmma, 64 query rows x 128 keys at a time; between the two
// a ring of stages whose barriers count bytes (full) and readers (empty). No thread computes an address of an
// element, and nothing that is loaded waits in a register.
//
// Measured on an H200 in November 2026 by a prototype, (B, S, H) = (2, 8192, 16): 376 TFLOP/s full, 374
// causal; a kernel by mma.sync (rung 0: FlashAttention-2's) 310 and 284.
//
// The tensor cores idle while the softmax runs, and the other way round: rung 2 adds a second warpgroup.
#pragma once

#include "tests/rungs/rung.cuh"

namespace cplab::kernels::cuda::hopper::rungs {

// Counts grow for ever; a stage's n-th filling and n-th emptying end the phase of parity n mod 2.
constexpr int stages = 2;
using Stages = PipelineIndex<stages>;

struct alignas(1024) TileRing {
  unsigned char tile[stages][k_bytes];
  std::uint64_t full[stages], empty[stages];
};

// W consumer warpgroups, each with queries of its own.
template <int W, int q_buffers = 1>
struct alignas(1024) RungMemory {
  unsigned char q[q_buffers][W][q_bytes];
  TileRing k, v;
  std::uint64_t q_full[q_buffers], q_empty[q_buffers];
};

template <int W, int q_buffers>
__device__ __forceinline__ void start_barriers(RungMemory<W, q_buffers>& memory) {
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < stages; ++stage)
      for (TileRing* ring : {&memory.k, &memory.v}) {
        init_barrier(shared_address(&ring->full[stage]), 1);
        init_barrier(shared_address(&ring->empty[stage]), 4 * W);  // warps
      }
    for (int buffer = 0; buffer < q_buffers; ++buffer) {
      init_barrier(shared_address(&memory.q_full[buffer]), 1);
      init_barrier(shared_address(&memory.q_empty[buffer]), W);
    }
    fence_barrier_init();
  }
  __syncthreads();
}

// --- the producer, one thread ------------------------------------------------------------------------------

template <int W>
__device__ __forceinline__ void load_q(const RungParams& params, unsigned char (&q)[W][q_bytes],
                                       std::uint64_t& full, const Tile& tile) {
  arrive_and_expect_tx(shared_address(&full), W * q_bytes);
  for (int w = 0; w < W; ++w)
    tma_load(shared_address(q[w]), params.q, tile.row + 64 * w, tile.head, shared_address(&full));
}

// A tile into the ring, once its consumers have left the stage. On a fresh barrier parity 1 is over.
__device__ __forceinline__ void load(TileRing& ring, const CUtensorMap& map, int row, int head, int count) {
  const int stage = Stages::stage(count);
  wait(shared_address(&ring.empty[stage]), Stages::parity(count) ^ 1);
  arrive_and_expect_tx(shared_address(&ring.full[stage]), k_bytes);
  tma_load(shared_address(ring.tile[stage]), map, row, head, shared_address(&ring.full[stage]));
}

// All keys and values of a tile; `count` blocks went before. Keys come a block ahead: they are needed first.
template <class Memory>
__device__ __forceinline__ void load_blocks(const RungParams& params, Memory& memory, const Tile& tile,
                                            int count) {
  load(memory.k, params.k, 0, tile.head, count);
  for (int n = 0; n < tile.blocks; ++n) {
    if (n + 1 < tile.blocks) load(memory.k, params.k, (n + 1) * keys, tile.head, count + n + 1);
    load(memory.v, params.v, n * keys, tile.head, count + n);
  }
}

// --- the consumers -----------------------------------------------------------------------------------------

// Where the tile lies, once it is there.
__device__ __forceinline__ std::uint32_t await(TileRing& ring, int count) {
  wait(shared_address(&ring.full[Stages::stage(count)]), Stages::parity(count));
  return shared_address(ring.tile[Stages::stage(count)]);
}

// A warp has read the tile.
__device__ __forceinline__ void release(TileRing& ring, int count) {
  __syncwarp();
  if (lane_index() == 0) arrive(shared_address(&ring.empty[Stages::stage(count)]));
}

// Product, softmax, product, and nothing at the same time.
template <class Memory>
__device__ __forceinline__ void mainloop_in_turn(const RungParams& params, Memory& memory, const Tile& tile,
                                                 std::uint32_t q, int first_row, Rows& rows) {
  float scores[keys / 8][4];
  std::uint32_t p[keys / 16][4];
  start_rows(rows);
#pragma unroll 1
  for (int n = 0; n < tile.blocks; ++n) {
    issue_qk(scores, q, await(memory.k, n));
    warpgroup_wait<0>();
    warpgroup_fence_operand(scores);
    release(memory.k, n);
    mask_scores(scores, params, first_row, n * keys);
    softmax_step(scores, rows, params.scale_log2);
    rescale_out(rows);
    pack_operand<__nv_bfloat16>(scores, p);
    issue_pv(rows, p, await(memory.v, n));
    warpgroup_wait<0>();
    warpgroup_fence_operand(rows.out);
    release(memory.v, n);
  }
}

// Out, from the registers where it is: four bytes a store.
__device__ __forceinline__ void write_rows(const Rows& rows, const RungParams& params, int head,
                                           int first_row) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half + lane_index() / 4;
    if (row >= params.S) continue;
    __nv_bfloat16* const into =
        params.out_rows + (std::int64_t{head} * params.S + row) * D + 2 * (lane_index() % 4);
#pragma unroll
    for (int n = 0; n < D / 8; ++n)
      *reinterpret_cast<std::uint32_t*>(into + 8 * n) =
          Element<__nv_bfloat16>::pack(rows.out[n][2 * half], rows.out[n][2 * half + 1]);
  }
}

__global__ void __launch_bounds__(2 * warpgroup_threads, 1)
    one_warpgroup_kernel(const __grid_constant__ RungParams params) {
  auto& memory = shared_memory<RungMemory<1>>();
  start_barriers(memory);
  const Tile tile = tile_at<64>(params, static_cast<int>(blockIdx.x));
  if (warpgroup_index() == 0) {
    if (threadIdx.x != 0) return;
    load_q(params, memory.q[0], memory.q_full[0], tile);
    load_blocks(params, memory, tile, 0);
  } else {
    const int first_row = tile.row + 16 * (thread_index() / 32 - 4);
    wait(shared_address(&memory.q_full[0]), 0);
    Rows rows;
    mainloop_in_turn(params, memory, tile, shared_address(memory.q[0][0]), first_row, rows);
    finish_rows(rows, params, tile.head, first_row);
    write_rows(rows, params, tile.head, first_row);
  }
}

}  // namespace cplab::kernels::cuda::hopper::rungs
