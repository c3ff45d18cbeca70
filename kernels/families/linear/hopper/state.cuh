// The states of chunks, S = sum over tokens of lambda^n y^T z with n the tokens to the chunk's end (reverse:
// to its begin): a walk over the chunk in tiles of 64 tokens. A warpgroup owns 64 of the D rows of S, in its
// accumulators, and scales its columns of y where they lie. While a tile is multiplied, the keys of the next
// are scaled: not in registers, as in local.cuh, because ptxas guards registers that a product still reads
// only up to the end of a loop's body.
#pragma once

#include <cstdint>

#include "kernels/families/linear/hopper/fragments.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels::cuda::hopper {

struct StateParams {
  CUtensorMap y, z;
  DeviceView state;
  WalkItems items;
};

template <int D, int E>
struct StateShape {
  static constexpr int consumers = D / 64;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int blocks_per_sm = hopper_walk_blocks(D);
  static constexpr int producer_registers = 24, consumer_registers = D == 64 ? 224 : 240;
  static constexpr int y_bytes = walk_rows * D * 2, z_bytes = walk_rows * E * 2;
  static constexpr int stages = (D == 64 ? 96 : 192) * 1024 / (y_bytes + z_bytes);
};

template <int D, int E>
struct alignas(1024) StateStorage {
  using Shape = StateShape<D, E>;
  unsigned char y[Shape::stages][Shape::y_bytes], z[Shape::stages][Shape::z_bytes];
  std::uint64_t full[Shape::stages], empty[Shape::stages];
};

template <int D, int E, Direction direction>
__device__ __forceinline__ void produce_state(const StateParams& params, StateStorage<D, E>& memory) {
  using Shape = StateShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  int count = 0;
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<direction>(params.items, number);
    if (item.chunk.state < 0) continue;
    const int tiles = tiles_of(item.chunk);
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const std::uint32_t full = shared_address(&memory.full[stage]);
      const int row = item.chunk.row + tile_begin<direction>(index, tiles);
      wait(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
      arrive_and_expect_tx(full, Shape::y_bytes + Shape::z_bytes);
      tma_load(shared_address(memory.y[stage]), params.y, row, item.head, full);
      tma_load(shared_address(memory.z[stage]), params.z, row, item.head, full);
    }
  }
}

template <class T, int D, int E, Direction direction>
__device__ __forceinline__ void consume_state(const StateParams& params, StateStorage<D, E>& memory,
                                              int warpgroup) {
  using Shape = StateShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  using Mma = Wgmma<T, E>;
  float state[E / 8][4];
  int count = 0;
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<direction>(params.items, number);
    if (item.chunk.state < 0) continue;
    const int tiles = tiles_of(item.chunk);
    const float rate = item.rate;
#pragma unroll
    for (int n = 0; n < E / 8; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e) state[n][e] = 0;
#pragma unroll 1
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const int n = min(walk_rows, item.chunk.count - tile_begin<direction>(index, tiles));
      unsigned char* const keys = memory.y[stage] + warpgroup * tile_group_bytes;
      wait(shared_address(&memory.full[stage]), Stages::parity(count));
      if (n < walk_rows) {
        constexpr int all = Shape::consumers * warpgroup_threads;
        zero_tile_rows<E / 64>(memory.z[stage], n, thread_index() - warpgroup_threads, all);
        fence_view_async_shared();
        named_barrier_sync(1 + Shape::consumers, all);
      }
      scale_tile<T, direction>(keys, rate, n);
      fence_view_async_shared();
      named_barrier_sync(1 + warpgroup, warpgroup_threads);
      warpgroup_wait<0>();
      warpgroup_fence_operand(state);
      if (index > 0 && lane_index() == 0) arrive(shared_address(&memory.empty[Stages::stage(count - 1)]));
      scale_sums(state, decay(rate, n));
      const TileDescriptor<tile_group_bytes> y(shared_address(keys)), z(shared_address(memory.z[stage]));
      warpgroup_fence_operand(state);
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < 4; ++step)
        Mma::multiply_ss_mn_major(state, y.mn_major(step), z.mn_major(step), 1);
      warpgroup_commit_batch();
    }
    warpgroup_wait<0>();
    warpgroup_fence_operand(state);
    if (tiles > 0 && lane_index() == 0) arrive(shared_address(&memory.empty[Stages::stage(count - 1)]));

    const int row = D * item.chunk.state + 64 * warpgroup + 16 * warp_in_group() + lane_index() / 4;
    float* const to =
        head_of<float>(params.state, item.head) + row * params.state.row_stride + 2 * (lane_index() % 4);
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int n = 0; n < E / 8; ++n)
        *reinterpret_cast<float2*>(to + 8 * half * params.state.row_stride + 8 * n) = {
            state[n][2 * half], state[n][2 * half + 1]};
  }
}

template <class T, int D, int E, Direction direction>
__global__ void __launch_bounds__(StateShape<D, E>::threads, StateShape<D, E>::blocks_per_sm)
    linear_state_kernel(const __grid_constant__ StateParams params) {
  using Shape = StateShape<D, E>;
  extern __shared__ unsigned char state_shared[];
  const std::uint32_t base = shared_address(state_shared);
  auto& memory = *reinterpret_cast<StateStorage<D, E>*>(state_shared + (1024 - base % 1024) % 1024);
  if (threadIdx.x == 0) {
    for (int stage = 0; stage < Shape::stages; ++stage) {
      init_barrier(shared_address(&memory.full[stage]), 1);
      init_barrier(shared_address(&memory.empty[stage]), 4 * Shape::consumers);
    }
    fence_barrier_init();
  }
  wait_on_dependent_grids();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    warpgroup_reg_dealloc<Shape::producer_registers>();
    if (threadIdx.x == 0) produce_state<D, E, direction>(params, memory);
  } else {
    warpgroup_reg_alloc<Shape::consumer_registers>();
    consume_state<T, D, E, direction>(params, memory, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper
