// dk and dv of a chunk, from right to left, with the running state R of queries (D x E) on chip:
//
//   dv = (k q^T .* L) dout + lambda^n k R          the first warpgroup
//   dk = (v dout^T .* L) q + lambda^n v R^T        the second
//
// R is fp32 in accumulators, 64 of its D rows in each warpgroup; one copy of it in 16 bits in shared memory
// is operand B of both. Otherwise as local.cuh.
#pragma once

#include <cstdint>

#include "kernels/families/linear/hopper/fragments.cuh"
#include "kernels/families/parts/hopper/pipeline.cuh"

namespace cplab::kernels::cuda::hopper {

struct KeysParams {
  CUtensorMap q, k, v, dout, dk, dv;
  DeviceView dk_view, dv_view;
  WalkItems items;
  FirstState first;
  bool stores_dk_by_tma, stores_dv_by_tma;  // whole tiles
  bool add;
};

template <int D, int E>
struct KeysShape {
  static constexpr int consumers = 2;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int producer_registers = 24, consumer_registers = 240;
  static constexpr int d_bytes = walk_rows * D * 2, e_bytes = walk_rows * E * 2;
  static constexpr int stages = D + E == 256 ? 2 : 3;
};

template <int D, int E>
struct alignas(1024) KeysStorage {
  using Shape = KeysShape<D, E>;
  unsigned char q[Shape::stages][Shape::d_bytes], k[Shape::stages][Shape::d_bytes];
  unsigned char v[Shape::stages][Shape::e_bytes], dout[Shape::stages][Shape::e_bytes];
  unsigned char state[D * E * 2];  // [E / 64][D][64]
  unsigned char dk[Shape::d_bytes], dv[Shape::e_bytes];
  std::uint64_t full[Shape::stages], empty[Shape::stages];
};

template <int D, int E>
__device__ __forceinline__ void produce_keys(const KeysParams& params, KeysStorage<D, E>& memory) {
  using Shape = KeysShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  int count = 0;
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<Direction::reverse>(params.items, number);
    const int tiles = tiles_of(item.chunk);
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const std::uint32_t full = shared_address(&memory.full[stage]);
      const int row = item.chunk.row + tile_begin<Direction::reverse>(index, tiles);
      wait(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
      arrive_and_expect_tx(full, 2 * Shape::d_bytes + 2 * Shape::e_bytes);
      tma_load(shared_address(memory.k[stage]), params.k, row, item.head, full);
      tma_load(shared_address(memory.q[stage]), params.q, row, item.head, full);
      tma_load(shared_address(memory.v[stage]), params.v, row, item.head, full);
      tma_load(shared_address(memory.dout[stage]), params.dout, row, item.head, full);
    }
  }
}

// values: dv, from rows of C = D columns to N = E; else dk, from E to D.
template <class T, int D, int E, bool values>
__device__ __forceinline__ void consume_keys(const KeysParams& params, KeysStorage<D, E>& memory) {
  using Shape = KeysShape<D, E>;
  using Stages = PipelineIndex<Shape::stages>;
  constexpr int C = values ? D : E, N = values ? E : D;
  using PairMma = Wgmma<T, 64>;
  using OutMma = Wgmma<T, N>;
  using StateMma = Wgmma<T, E>;
  constexpr int all = Shape::consumers * warpgroup_threads, state_group = values ? 0 : 1;
  constexpr bool owns_state = 64 * state_group < D;
  constexpr int state_group_bytes = D * 128;
  const bool leader = thread_index() % warpgroup_threads == 0;
  const std::uint32_t state_copy = shared_address(memory.state);
  unsigned char* const staged = values ? memory.dv : memory.dk;

  float state[E / 8][4];
  const auto share_state = [&] {
    if constexpr (owns_state) {
#pragma unroll
      for (int group = 0; group < E / 64; ++group)
        store_tile<T>(state_copy + static_cast<std::uint32_t>(group * state_group_bytes +
                                                              state_group * tile_group_bytes),
                      reinterpret_cast<const float(&)[8][4]>(state[8 * group]));
      fence_view_async_shared();
    }
    if (leader) tma_store_wait();  // what was staged has been read
    named_barrier_sync(1, all);
  };

  int count = 0;
#pragma unroll 1
  for (int number = static_cast<int>(blockIdx.x); number < params.items.count;
       number += params.items.blocks) {
    const WalkItem item = item_of<Direction::reverse>(params.items, number);
    const int tiles = tiles_of(item.chunk);
    const float rate = item.rate;
    if constexpr (owns_state)
      load_first_state(state, params.first, params.first.transposed ? E : D, item, 64 * state_group, 0);
    share_state();
#pragma unroll 1
    for (int index = 0; index < tiles; ++index, ++count) {
      const int stage = Stages::stage(count);
      const int begin = tile_begin<Direction::reverse>(index, tiles);
      const int n = min(walk_rows, item.chunk.count - begin);
      wait(shared_address(&memory.full[stage]), Stages::parity(count));
      if (n < walk_rows) {
        zero_tile_rows<D / 64>(memory.q[stage], n, thread_index() - warpgroup_threads, all);
        zero_tile_rows<E / 64>(memory.dout[stage], n, thread_index() - warpgroup_threads, all);
        fence_view_async_shared();
        named_barrier_sync(1, all);
      }
      using Tile = TileDescriptor<tile_group_bytes>;
      const Tile x(shared_address(values ? memory.k[stage] : memory.v[stage]));
      const Tile y(shared_address(values ? memory.q[stage] : memory.dout[stage]));
      const Tile z(shared_address(values ? memory.dout[stage] : memory.q[stage]));
      const TileDescriptor<state_group_bytes> copy(state_copy);

      float pairs[8][4], out[N / 8][4];
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < C / 16; ++step)
        PairMma::multiply_ss(pairs, x.k_major(step), y.k_major(step), step > 0);
      warpgroup_commit_batch();
#pragma unroll
      for (int step = 0; step < C / 16; ++step) {
        if constexpr (values)
          OutMma::multiply_ss_b_mn_major(out, x.k_major(step), copy.mn_major(step), step > 0);
        else
          OutMma::multiply_ss(out, x.k_major(step), copy.k_major(step), step > 0);
      }
      warpgroup_commit_batch();

      std::uint32_t queries[4][4];
      if constexpr (owns_state) {
        TokenFactors factors;
        token_factors<Direction::reverse>(factors, rate, n);
        load_scaled_transposed<T>(queries, shared_address(memory.q[stage]), state_group, factors);
      }

      warpgroup_wait<1>();
      warpgroup_fence_operand(pairs);
      std::uint32_t decayed[4][4];
      decay_pairs<T, Direction::reverse>(pairs, rate, decayed);
      warpgroup_wait<0>();
      warpgroup_fence_operand(out);
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = 16 * warp_in_group() + 8 * half + lane_index() / 4;
        const float factor = decay(rate, max(n - row, 0));
#pragma unroll
        for (int tile = 0; tile < N / 8; ++tile) {
          out[tile][2 * half] *= factor;
          out[tile][2 * half + 1] *= factor;
        }
      }
      if constexpr (owns_state) scale_sums(state, decay(rate, n));

      warpgroup_fence_operand(out);
      if constexpr (owns_state) warpgroup_fence_operand(state);
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < 4; ++step) OutMma::multiply_rs(out, decayed[step], z.mn_major(step), 1);
      warpgroup_commit_batch();
      if constexpr (owns_state) {
        const Tile dout(shared_address(memory.dout[stage]));
#pragma unroll
        for (int step = 0; step < 4; ++step)
          StateMma::multiply_rs(state, queries[step], dout.mn_major(step), 1);
      }
      warpgroup_commit_batch();

      warpgroup_wait<1>();
      warpgroup_fence_operand(out);
      const int row = item.chunk.row + begin;
      const bool by_tma = (values ? params.stores_dv_by_tma : params.stores_dk_by_tma) && n == walk_rows;
      if (by_tma) {
#pragma unroll
        for (int group = 0; group < N / 64; ++group)
          store_tile<T>(shared_address(staged + group * tile_group_bytes),
                        reinterpret_cast<const float(&)[8][4]>(out[8 * group]));
        fence_view_async_shared();
      } else {
        write_tile_rows(out, values ? params.dv_view : params.dk_view, item.head, row, n, params.add);
      }
      named_barrier_sync(1, all);  // the copy of the state has been read by both, the output is staged
      if (by_tma && leader) tma_store(values ? params.dv : params.dk, row, item.head, shared_address(staged));

      warpgroup_wait<0>();
      if constexpr (owns_state) warpgroup_fence_operand(state);
      if (lane_index() == 0) arrive(shared_address(&memory.empty[stage]));
      if (index + 1 < tiles) share_state();
    }
  }
  if (leader) tma_store_wait();
}

template <class T, int D, int E>
__global__ void __launch_bounds__(KeysShape<D, E>::threads, 1)
    linear_keys_kernel(const __grid_constant__ KeysParams params) {
  using Shape = KeysShape<D, E>;
  extern __shared__ unsigned char keys_shared[];
  const std::uint32_t base = shared_address(keys_shared);
  auto& memory = *reinterpret_cast<KeysStorage<D, E>*>(keys_shared + (1024 - base % 1024) % 1024);
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
    if (threadIdx.x == 0) produce_keys<D, E>(params, memory);
  } else {
    warpgroup_reg_alloc<Shape::consumer_registers>();
    if (warpgroup == 1)
      consume_keys<T, D, E, true>(params, memory);
    else
      consume_keys<T, D, E, false>(params, memory);
  }
}

}  // namespace cplab::kernels::cuda::hopper
