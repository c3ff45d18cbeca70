// Gradients of attention for Hopper as two kernels that never meet, one for dq, one for dk and dv: no
// atomics, no scratch, the same bits every time, for S and dP computed twice (once:
// attend_backward_fused.cuh).
//
// Both are one scheme. A consumer warpgroup owns 64 rows of two tensors, A and B; blocks of rows of two
// others, X and Y, pass by. S = A X^T and dP = B Y^T stay in registers, P = exp(scale S - lse), dS = P (dP -
// delta), and
//   owner queries: A, B = q, dout; X, Y = k, v;     dq += dS X
//   owner keys:    A, B = k, v;    X, Y = q, dout;  dk += dS^T X, dv += P^T Y   (S, dP, P, dS transposed)
// The last product of a block for dq runs while the first two of the next are queued behind it; dv's runs
// beside the arithmetic of dS.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/descriptor.cuh"
#include "kernels/cuda/hopper/gradient_tiles.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace cplab::kernels::cuda::hopper {

// Rows of X and Y that belong to nobody, or to queries without a gradient: 0 times NaN must not happen.
template <int D, Part part>
__device__ __forceinline__ void clean_rows(GradientMemory<D, part>& memory, int stage) {
  using Shape = GradientShape<D, part>;
  constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
  const Block& block = memory.bounds[stage];
  for (int n = thread_index() - warpgroup_threads; n < Shape::block_bytes / 16; n += consumer_threads) {
    const int row = n / 8 % Shape::columns;  // eight pieces of 16 bytes a row of 64 columns
    const bool keep = part == Part::dq ? row < block.end - block.begin : memory.lse[stage][row] != infinity();
    if (keep) continue;
    reinterpret_cast<uint4*>(memory.x[stage])[n] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(memory.y[stage])[n] = make_uint4(0, 0, 0, 0);
  }
  fence_shared_writes();
  sync_threads_of(1, consumer_threads);
}

template <class T, int D, Part part>
__device__ __forceinline__ void consume_blocks(const HopperBackwardParams& params,
                                               GradientMemory<D, part>& memory, int warpgroup) {
  using Shape = GradientShape<D, part>;
  using Stages = Ring<Shape::stages>;
  using Scores = Wgmma<T, Shape::columns>;
  using Gradients = Wgmma<T, D>;
  constexpr bool queries = part == Part::dq;
  constexpr int n_tiles = Shape::columns / 8;
  const AttendBackwardParams& call = params.call;
  const int first_row = memory.tile.begin + 16 * (thread_index() / 32 - 4);
  const auto lane = [] { return thread_index() % 32; };

  Sums<1, D / 8> dx, dy;  // dq, or dk and dv
  clear(dx);
  if constexpr (!queries) clear(dy);
  float row_lse[2], row_delta[2];
  bool empty_row = false;
  if constexpr (queries) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first_row + 8 * half + lane() / 4;
      const bool inside = row < memory.tile.end;
      row_lse[half] = inside ? lse_log2(*row_of<const float>(call.lse, memory.head, row)) : infinity();
      row_delta[half] = inside ? *row_of<const float>(call.delta, memory.head, row) : 0;
      empty_row |= row_lse[half] == infinity();
    }
    empty_row = __any_sync(all_lanes, empty_row) != 0;
  }

  std::uint32_t weights[n_tiles / 2][4], slopes[n_tiles / 2][4];  // P and dS
#pragma unroll 1
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory.full[stage]), Stages::parity(count));
    const Block& block = memory.bounds[stage];
    if (!block.live()) break;
    if (count == 0) wait(shared_address(&memory.owned_full), 0);
    if (memory.unclean[stage] != 0) clean_rows<D, part>(memory, stage);
    const TileDescriptor<Shape::block_half> x(shared_address(memory.x[stage]));
    const TileDescriptor<Shape::block_half> y(shared_address(memory.y[stage]));

    float p[n_tiles][4], dp[n_tiles][4];
    fence_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Scores::multiply_shared(
          p, TileDescriptor<Shape::owned_half>(shared_address(memory.a[warpgroup])).contiguous(step),
          x.contiguous(step), step > 0);
    commit_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Scores::multiply_shared(
          dp, TileDescriptor<Shape::owned_half>(shared_address(memory.b[warpgroup])).contiguous(step),
          y.contiguous(step), step > 0);
    commit_products();
    if constexpr (queries) {
      wait_for_products<2>();  // the gradients of the block before
      if (count > 0 && lane() == 0) arrive(shared_address(&memory.empty[Stages::stage(count - 1)]));
    }

    wait_for_products<1>();
    pin(p);
    const float* const lse = memory.lse[stage] + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float2 pair;
      if constexpr (!queries) pair = *reinterpret_cast<const float2*>(lse + 8 * n);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[n][e] = exp2_approx(fmaf(p[n][e], params.scale_log2,
                                   -(queries      ? row_lse[e / 2]
                                     : e % 2 == 0 ? pair.x
                                                  : pair.y)));
    }
    const bool masked = empty_row || !all_live<Shape::columns>(block, first_row);
    const auto mask = [&](float(&sums)[n_tiles][4]) {
      mask_dead(sums, block, first_row, 0);
      if constexpr (queries) {
#pragma unroll
        for (int half = 0; half < 2; ++half)
          if (row_lse[half] == infinity()) mask_row(sums, half, 0, 0, 0, 0);
      }
    };
    const auto queue_values = [&] {
      pin(dy[0]);
      fence_products();
#pragma unroll
      for (int step = 0; step < n_tiles / 2; ++step)
        Gradients::multiply_registers(dy[0], weights[step], y.strided(step), 1);
      commit_products();
    };
    if (masked) mask(p);
    if constexpr (!queries) pack_operand<T>(p, weights);

    wait_for_products<0>();
    pin(dp);
    if constexpr (!queries) queue_values();
    const float* const delta = memory.delta[stage] + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float2 pair;
      if constexpr (!queries) pair = *reinterpret_cast<const float2*>(delta + 8 * n);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[n][e] = p[n][e] * (dp[n][e] - (queries ? row_delta[e / 2] : e % 2 == 0 ? pair.x : pair.y));
    }
    // Again: where a pair is not live, dP may be anything, and 0 times it too.
    if (masked) mask(dp);
    pack_operand<T>(dp, slopes);

    pin(dx[0]);
    fence_products();
#pragma unroll
    for (int step = 0; step < n_tiles / 2; ++step)
      Gradients::multiply_registers(dx[0], slopes[step], x.strided(step), 1);
    commit_products();
    if constexpr (!queries) {  // registers do not suffice for the next block's scores beside these
      wait_for_products<0>();
      if (lane() == 0) arrive(shared_address(&memory.empty[stage]));
    }
  }
  wait_for_products<0>();
  pin(dx[0]);
  if constexpr (!queries) pin(dy[0]);

  RowUpdate updates[1][2];
  const bool add = (queries ? call.write_dq : call.write_dk) == Write::add;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half + lane() / 4;
    bool live = row < memory.tile.end;
    if (add && live)
      live =
          has_live_pair<owner_of<part>>(row, memory.tile, queries ? call.by_q.segments : call.by_k.segments);
    if constexpr (queries) live = live && !(add && row_lse[half] == infinity());
    updates[0][half] = {
        .write = live, .factor = static_cast<float>(call.scale), .old_factor = add ? 1.0f : 0.0f};
  }
  write_rows(dx, queries ? call.dq : call.dk, memory.head, first_row, updates, lane());
  if constexpr (!queries) {
    updates[0][0].factor = updates[0][1].factor = 1;
    write_rows(dy, call.dv, memory.head, first_row, updates, lane());
  }
}

template <class T, int D, Part part>
__global__ void __launch_bounds__(GradientShape<D, part>::threads, 1)
    gradient_hopper_kernel(const __grid_constant__ HopperBackwardParams params) {
  using Shape = GradientShape<D, part>;
  constexpr bool queries = part == Part::dq;
  extern __shared__ unsigned char gradient_hopper_shared[];
  const std::uint32_t base = shared_address(gradient_hopper_shared);
  auto& memory =
      *reinterpret_cast<GradientMemory<D, part>*>(gradient_hopper_shared + (1024 - base % 1024) % 1024);
  int tile_index, head;
  (queries ? params.q_order : params.k_order).find(static_cast<int>(blockIdx.x), tile_index, head);
  const WorkTile tile = (queries ? params.call.by_q : params.call.by_k).tiles[tile_index];
  if (threadIdx.x == 0) {
    memory.tile = tile;
    memory.head = head;
    init_barrier(shared_address(&memory.owned_full), 1);
    for (int stage = 0; stage < Shape::stages; ++stage) {
      init_barrier(shared_address(&memory.full[stage]), queries ? 1 : 1 + 32);  // a copy; a warp
      init_barrier(shared_address(&memory.walked[stage]), 1);
      init_barrier(shared_address(&memory.empty[stage]), 4 * Shape::consumers);
    }
    fence_barrier_init();
  }
  wait_for_earlier_kernels();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    if (threadIdx.x == 0) produce_blocks<D, part>(params, memory);
    if constexpr (!queries) {
      if (threadIdx.x / 32 == 1) produce_rows<D, part>(params.call, memory);
    }
  } else {
    take_registers<Shape::consumer_registers>();
    consume_blocks<T, D, part>(params, memory, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper
