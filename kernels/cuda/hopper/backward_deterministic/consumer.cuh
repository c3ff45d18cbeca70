// A consumer warpgroup of the deterministic backward kernels. Both kernels are one scheme: the warpgroup owns
// 64 rows of two tensors, A and B, and walks over blocks of rows of two others, X and Y. S = A X^T and dP = B
// Y^T stay in registers; P = exp(scale S - lse), dS = P (dP - delta), and
//   rows are queries: A, B = q, dout; X, Y = k, v;     dq += dS X
//   rows are keys:    A, B = k, v;    X, Y = q, dout;  dk += dS^T X, dv += P^T Y   (S, dP, P, dS transposed)
// For dq the last product of a block runs while the first two of the next are issued behind it; dv's product
// runs while dS is computed.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_deterministic/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/mask.cuh"
#include "kernels/cuda/hopper/parts/operands.cuh"
#include "kernels/cuda/hopper/parts/pipeline.cuh"
#include "kernels/cuda/hopper/parts/wgmma.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// Zeroes rows of X and Y beyond the block, and of queries without a gradient: they may hold NaN, which times
// P = 0 is NaN.
template <int D, Gradient gradient>
__device__ __forceinline__ void zero_rows(DeterministicStorage<D, gradient>& memory, int stage) {
  using Shape = DeterministicShape<D, gradient>;
  constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
  const Block& block = memory.bounds[stage];
  for (int n = thread_index() - warpgroup_threads; n < Shape::block_bytes / 16; n += consumer_threads) {
    const int row = n / 8 % Shape::columns;  // a row of 64 columns is eight times 16 bytes
    const bool keep =
        gradient == Gradient::dq ? row < block.end - block.begin : memory.lse[stage][row] != infinity();
    if (keep) continue;
    reinterpret_cast<uint4*>(memory.x[stage])[n] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(memory.y[stage])[n] = make_uint4(0, 0, 0, 0);
  }
  fence_view_async_shared();
  named_barrier_sync(1, consumer_threads);
}

template <class T, int D, Gradient gradient>
__device__ __forceinline__ void consume(const DeterministicParams& params,
                                        DeterministicStorage<D, gradient>& memory, int warpgroup) {
  using Shape = DeterministicShape<D, gradient>;
  using Stages = PipelineIndex<Shape::stages>;
  using ScoreMma = Wgmma<T, Shape::columns>;
  using GradientMma = Wgmma<T, D>;
  constexpr bool queries = gradient == Gradient::dq;
  constexpr int n_tiles = Shape::columns / 8;
  const AttendBackwardParams& call = params.call;
  const int first_row = memory.tile.begin + 16 * (thread_index() / 32 - 4);
  const auto lane = [] { return thread_index() % 32; };

  Accumulators<1, D / 8> dx, dy;  // dq, or dk and dv
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

  std::uint32_t p_operand[n_tiles / 2][4], ds[n_tiles / 2][4];  // operands A of dv and of dk or dq
#pragma unroll 1
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory.full[stage]), Stages::parity(count));
    const Block& block = memory.bounds[stage];
    if (!block.live()) break;
    if (count == 0) wait(shared_address(&memory.owned_full), 0);
    if (memory.unclean[stage] != 0) zero_rows<D, gradient>(memory, stage);
    const TileDescriptor<Shape::block_half_bytes> x(shared_address(memory.x[stage]));
    const TileDescriptor<Shape::block_half_bytes> y(shared_address(memory.y[stage]));

    float p[n_tiles][4], dp[n_tiles][4];
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      ScoreMma::multiply_ss(
          p, TileDescriptor<Shape::owned_half_bytes>(shared_address(memory.a[warpgroup])).k_major(step),
          x.k_major(step), step > 0);
    warpgroup_commit_batch();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      ScoreMma::multiply_ss(
          dp, TileDescriptor<Shape::owned_half_bytes>(shared_address(memory.b[warpgroup])).k_major(step),
          y.k_major(step), step > 0);
    warpgroup_commit_batch();
    if constexpr (queries) {
      warpgroup_wait<2>();  // dq of the block before
      if (count > 0 && lane() == 0) arrive(shared_address(&memory.empty[Stages::stage(count - 1)]));
    }

    warpgroup_wait<1>();
    warpgroup_fence_operand(p);
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
    const auto issue_dv = [&] {
      warpgroup_fence_operand(dy[0]);
      warpgroup_arrive();
#pragma unroll
      for (int step = 0; step < n_tiles / 2; ++step)
        GradientMma::multiply_rs(dy[0], p_operand[step], y.mn_major(step), 1);
      warpgroup_commit_batch();
    };
    if (masked) mask(p);
    if constexpr (!queries) pack_operand<T>(p, p_operand);

    warpgroup_wait<0>();
    warpgroup_fence_operand(dp);
    if constexpr (!queries) issue_dv();
    const float* const delta = memory.delta[stage] + 2 * (lane() % 4);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      float2 pair;
      if constexpr (!queries) pair = *reinterpret_cast<const float2*>(delta + 8 * n);
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[n][e] = p[n][e] * (dp[n][e] - (queries ? row_delta[e / 2] : e % 2 == 0 ? pair.x : pair.y));
    }
    // Once more: where a pair is not live, P is 0, but dP may be NaN.
    if (masked) mask(dp);
    pack_operand<T>(dp, ds);

    warpgroup_fence_operand(dx[0]);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < n_tiles / 2; ++step)
      GradientMma::multiply_rs(dx[0], ds[step], x.mn_major(step), 1);
    warpgroup_commit_batch();
    if constexpr (!queries) {  // registers do not suffice to start the next S beside these products
      warpgroup_wait<0>();
      if (lane() == 0) arrive(shared_address(&memory.empty[stage]));
    }
  }
  warpgroup_wait<0>();
  warpgroup_fence_operand(dx[0]);
  if constexpr (!queries) warpgroup_fence_operand(dy[0]);

  RowUpdate updates[1][2];
  const bool add = (queries ? call.write_dq : call.write_dk) == Write::add;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = first_row + 8 * half + lane() / 4;
    bool live = row < memory.tile.end;
    if (add && live)
      live = has_live_pair<owner_of<gradient>>(row, memory.tile,
                                               queries ? call.by_q.segments : call.by_k.segments);
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

}  // namespace cplab::kernels::cuda::hopper
