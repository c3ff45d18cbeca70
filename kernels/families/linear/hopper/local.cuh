// What a chunk's rows read from its own tokens and from a state: out = (x y^T .* L) z + lambda^t x S, walking
// over the chunk from left to right in tiles of 64 tokens with the running state S (D x E) on chip.
//
//   out   x, y, z = q, k, v
//   dq    x, y, z = dout, v, k, the state transposed
//
// A warpgroup owns 64 columns of z, out and S, and shares nothing but the tiles: the pairs x y^T are computed
// by each. S is fp32 in its accumulators; a copy in 16 bits in shared memory is operand B of x S. Per tile:
// pairs and x S are started; meanwhile y^T is scaled in registers; pairs times decays are multiplied with z;
// S is decayed and y^T z added; meanwhile out is written.
#pragma once

#include <cstdint>

#include "kernels/families/linear/hopper/fragments.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"
#include "kernels/tiles/linear_cuts.hpp"

namespace cplab::kernels::cuda::hopper {

struct LocalParams {
  CUtensorMap x, y, z, out;  // out: a group of columns
  DeviceView out_view;
  WalkItems items;
  FirstState first;
  bool stores_by_tma;  // whole tiles of out
  bool add;
};

template <int D, int E>
struct LocalShape {
  static constexpr int consumers = E / 64;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int blocks_per_sm = hopper_walk_blocks(E);
  static constexpr int producer_registers = 24, consumer_registers = E == 64 ? 224 : 240;
  static constexpr int x_bytes = walk_rows * D * 2, z_bytes = walk_rows * E * 2;
  static constexpr int stages = E == 64 ? (D == 64 ? 4 : 2) : (D == 64 ? 5 : 3);
};

template <int D, int E>
struct alignas(1024) LocalStorage {
  using Shape = LocalShape<D, E>;
  unsigned char x[Shape::stages][Shape::x_bytes], y[Shape::stages][Shape::x_bytes];
  unsigned char z[Shape::stages][Shape::z_bytes];
  unsigned char state[Shape::consumers][D * 128];
  unsigned char out[Shape::consumers][tile_group_bytes];
  std::uint64_t full[Shape::stages], empty[Shape::stages];
};

// One thread: loads the tiles of all items of the block, in the order in which they are walked.
template <int D, int E>
__device__ __forceinline__ void produce_local(const LocalParams& params, LocalStorage<D, E>& memory) {
  using Shape = LocalShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  int count = 0;
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<Direction::forward>(params.items, number);
    const int tiles = tiles_of(item.chunk);
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const std::uint32_t full = shared_address(&memory.full[stage]);
      const int row = item.chunk.row + tile_begin<Direction::forward>(index, tiles);
      wait(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
      arrive_and_expect_tx(full, 2 * Shape::x_bytes + Shape::z_bytes);
      tma_load(shared_address(memory.x[stage]), params.x, row, item.head, full);
      tma_load(shared_address(memory.y[stage]), params.y, row, item.head, full);
      tma_load(shared_address(memory.z[stage]), params.z, row, item.head, full);
    }
  }
}

template <class T, int D, int E>
__device__ __forceinline__ void consume_local(const LocalParams& params, LocalStorage<D, E>& memory,
                                              int warpgroup) {
  using Shape = LocalShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  using Mma = Wgmma<T, 64>;
  constexpr int d_groups = D / 64;
  const bool leader = thread_index() % warpgroup_threads == 0;
  const auto meet = [&] { named_barrier_sync(1 + warpgroup, warpgroup_threads); };
  const std::uint32_t state_tile = shared_address(memory.state[warpgroup]);
  const std::uint32_t out_tile = shared_address(memory.out[warpgroup]);

  float state[d_groups][8][4];
  const auto share_state = [&] {
#pragma unroll
    for (int group = 0; group < d_groups; ++group)
      store_tile<T>(state_tile + static_cast<std::uint32_t>(group * tile_group_bytes), state[group]);
    fence_view_async_shared();
    if (leader) tma_store_wait();  // what was staged has been read
    meet();
  };

  int count = 0;
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<Direction::forward>(params.items, number);
    const int tiles = tiles_of(item.chunk);
    const float rate = item.rate;
#pragma unroll
    for (int group = 0; group < d_groups; ++group)
      load_first_state(state[group], params.first, params.first.transposed ? E : D, item, 64 * group,
                       64 * warpgroup);
    share_state();
#pragma unroll 1
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const int begin = tile_begin<Direction::forward>(index, tiles);
      const int n = min(walk_rows, item.chunk.count - begin);
      wait(shared_address(&memory.full[stage]), Stages::parity(count));
      if (n < walk_rows) {
        constexpr int all = Shape::consumers * warpgroup_threads;
        zero_tile_rows<D / 64>(memory.y[stage], n, thread_index() - warpgroup_threads, all);
        zero_tile_rows<E / 64>(memory.z[stage], n, thread_index() - warpgroup_threads, all);
        fence_view_async_shared();
        named_barrier_sync(1 + Shape::consumers, all);
      }
      const TileDescriptor<tile_group_bytes> x(shared_address(memory.x[stage]));
      const TileDescriptor<tile_group_bytes> y(shared_address(memory.y[stage]));
      const TileDescriptor<tile_group_bytes> z(
          shared_address(memory.z[stage] + warpgroup * tile_group_bytes));
      const TileDescriptor<tile_group_bytes> shared_state(state_tile);

      float pairs[8][4], out[8][4];
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < D / 16; ++step)
        Mma::multiply_ss(pairs, x.k_major(step), y.k_major(step), step > 0);
      warpgroup_commit_batch();
#pragma unroll
      for (int step = 0; step < D / 16; ++step)
        Mma::multiply_ss_b_mn_major(out, x.k_major(step), shared_state.mn_major(step), step > 0);
      warpgroup_commit_batch();

      std::uint32_t keys[d_groups][4][4];
      {
        TokenFactors factors;
        token_factors<Direction::forward>(factors, rate, n);
#pragma unroll
        for (int group = 0; group < d_groups; ++group)
          load_scaled_transposed<T>(keys[group], shared_address(memory.y[stage]), group, factors);
      }

      warpgroup_wait<1>();
      warpgroup_fence_operand(pairs);
      std::uint32_t decayed[4][4];
      decay_pairs<T, Direction::forward>(pairs, rate, decayed);
      warpgroup_wait<0>();
      warpgroup_fence_operand(out);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * warp_in_group() + 8 * half + lane_index() / 4;
        const float factor = decay(rate, row);
#pragma unroll
        for (int tile = 0; tile < 8; ++tile) {
          out[tile][2 * half] *= factor;
          out[tile][2 * half + 1] *= factor;
        }
      }
      const float whole = decay(rate, n);
#pragma unroll
      for (int group = 0; group < d_groups; ++group) scale_sums(state[group], whole);

      warpgroup_fence_operand(out);
#pragma unroll
      for (int group = 0; group < d_groups; ++group) warpgroup_fence_operand(state[group]);
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < 4; ++step) Mma::multiply_rs(out, decayed[step], z.mn_major(step), 1);
      warpgroup_commit_batch();
#pragma unroll
      for (int group = 0; group < d_groups; ++group)
#pragma unroll
        for (int step = 0; step < 4; ++step)
          Mma::multiply_rs(state[group], keys[group][step], z.mn_major(step), 1);
      warpgroup_commit_batch();

      warpgroup_wait<1>();
      warpgroup_fence_operand(out);
      const int row = item.chunk.row + begin;
      const bool by_tma = params.stores_by_tma && n == walk_rows;
      if (by_tma) {
        store_tile<T>(out_tile, out);
        fence_view_async_shared();
      } else {
        DeviceView into = params.out_view;
        into.data =
            static_cast<unsigned char*>(into.data) + 64 * warpgroup * (into.dtype == DType::fp32 ? 4 : 2);
        write_tile_rows(out, into, item.head, row, n, params.add);
      }
      meet();  // x S has been read, out is staged
      if (by_tma && leader) tma_store(params.out, row, item.head, out_tile, warpgroup);

      warpgroup_wait<0>();
#pragma unroll
      for (int group = 0; group < d_groups; ++group) warpgroup_fence_operand(state[group]);
      if (lane_index() == 0) arrive(shared_address(&memory.empty[stage]));
      if (index + 1 < tiles) share_state();
    }
  }
  if (leader) tma_store_wait();
}

template <class T, int D, int E>
__global__ void __launch_bounds__(LocalShape<D, E>::threads, LocalShape<D, E>::blocks_per_sm)
    linear_local_kernel(const __grid_constant__ LocalParams params) {
  using Shape = LocalShape<D, E>;
  extern __shared__ unsigned char local_shared[];
  const std::uint32_t base = shared_address(local_shared);
  auto& memory = *reinterpret_cast<LocalStorage<D, E>*>(local_shared + (1024 - base % 1024) % 1024);
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
    if (threadIdx.x == 0) produce_local<D, E>(params, memory);
  } else {
    warpgroup_reg_alloc<Shape::consumer_registers>();
    consume_local<T, D, E>(params, memory, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper
