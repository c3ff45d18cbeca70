// A consumer warpgroup of the fused backward kernel has 64 of a tile's 128 keys, or all 64 of a small tile.
// Everything is transposed, so that P and dS stay in registers as operands (FlashAttention 3, arXiv
// 2407.08608):
//   S^T = K Q^T, dP^T = V dO^T, P^T = exp2(scale S^T - lse), dS^T = P^T (dP^T - delta)
//   dv += P^T dO, dk += dS^T Q
// For dq both warpgroups write dS^T to shared memory, and each multiplies it with half of the columns of K
// (head size 128) or for half of the queries (64). That product runs one block behind the others. With two
// tiles of dS, and full and empty barriers instead of one for the thread block, the warpgroups drift apart,
// and the softmax of one runs beside the products of the other. A single warpgroup computes all of dq. It
// queues the first products of a block behind the last one of the block before, and so leaves the tensor
// cores nothing to wait for but its exponentials.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/dkv_epilogues.cuh"
#include "kernels/families/hopper_backward/dq_accumulate.cuh"
#include "kernels/families/hopper_backward/score_gradients.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/hopper_backward/zero_queries.cuh"
#include "kernels/families/parts/hopper/mask.cuh"
#include "kernels/families/parts/hopper/operands.cuh"
#include "kernels/families/parts/hopper/scores.cuh"
#include "kernels/families/parts/hopper/wgmma.cuh"

namespace cplab::kernels::cuda::hopper {

template <class T, class Shape>
class FusedConsumer {
 public:
  static constexpr int D = Shape::head_size;
  using Stages = PipelineIndex<Shape::stages>;
  using InfoStages = PipelineIndex<Shape::info_stages>;
  using DsTiles = PipelineIndex<Shape::ds_tiles>;
  static constexpr int n_tiles = Shape::queries / 8, last_step = D / 16 - 1;
  static constexpr int dq_parts = Shape::dq_parts_of_consumer;
  using DqAccumulators = float[8 * dq_parts][4];  // 64 rows x 64 columns for each part of dq
  using Operand = std::uint32_t[n_tiles / 2][4];  // A of the products for dv and dk
  using Scores = float[n_tiles][4];               // 64 keys x the queries of a block
  using QueryRows = TileDescriptor<Shape::query_half_bytes>;
  // Whether the product for dv starts before dS is computed, and runs beside that; else P and S share
  // registers, and it starts afterwards. Whether delta is read early, with lse.
  static constexpr bool early_dv = Shape::queries == 64, early_delta = early_dv && !Shape::keeps_k;

  __device__ __forceinline__ FusedConsumer(const typename Shape::Params& params, FusedStorage<Shape>& memory,
                                           int warpgroup)
      : params_(params), memory_(memory), warpgroup_(warpgroup) {}

  // Works on all tiles of the thread block.
  __device__ __forceinline__ void run() {
    DqAccumulators dq;
    Operand ds = {};
    int count = 0;
#pragma unroll 1
    for (int flags; ((flags = wait_for_info(count)) & block_live) != 0;) {
      clear(dk_);
      clear(dv_);
      wait_for_q_dout(count, flags);
      wait_for_kv(count);
      if constexpr (Shape::keeps_k) {
        load_operand<Shape::key_half_bytes>(k_, memory_.k[warpgroup_] + thread_index() / 32 % 4 * 2048,
                                            last_step);
      }
      // What follows from the count is computed late, because it is opaque. Of ten places for that this was
      // the fastest, by 1 % at head size 128.
#pragma unroll 1
      while (run_block(opaque(count), dq, ds)) ++count;
      if constexpr (Shape::late_dk) end_block<0>(count, ds);
      end_tile(count, dq);
      ++count;
    }
    if (lane() == 0) tma_store_wait();
    dq_staging().wait_until_free(count);
    dq_staging().publish(dq_end);  // no more dq will be staged
  }

 private:
  // Waits for the BlockInfo of block `count`; returns its flags, 0 if there is no such block.
  __device__ __forceinline__ int wait_for_info(int count) {
    const int slot = InfoStages::stage(count);
    wait(shared_address(&memory_.info_full[slot]), InfoStages::parity(count));
    if constexpr (early_dv && !Shape::late_dk) load_lse(count);
    return memory_.flags[slot];
  }
  __device__ __forceinline__ void load_lse(int count) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) lse_[n] = lse_delta_of(count)[4 * n].lse;
  }

  // Waits for Q and dO of block `count`.
  __device__ __forceinline__ void wait_for_q_dout(int count, int flags) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory_.full[stage]), Stages::parity(count));
    if ((flags & block_clean) == 0)
      zero_queries_without_gradient(memory_, stage, memory_.lse_delta[InfoStages::stage(count)]);
  }
  // Where lse and delta are of the queries of block `count` that the lane has as columns, 8 queries apart.
  __device__ __forceinline__ const LseDeltaPair* lse_delta_of(int count) const {
    return memory_.lse_delta[InfoStages::stage(count)] + lane() % 4;
  }

  // Computes the products of a block for which wait_for_info() and wait_for_q_dout() have been called, and dq
  // of the block before it. Returns whether the tile has a next block, for which both have then been called.
  __device__ __forceinline__ bool run_block(int count, DqAccumulators& dq, Operand& ds) {
    const int stage = Stages::stage(count), slot = InfoStages::stage(count);
    const QueryRows q(shared_address(memory_.q[stage])), dout(shared_address(memory_.dout[stage]));
    Scores p, dp;
    const LseDeltaPair* const lse_delta = lse_delta_of(count);
    // The flags are read before the first product. Behind it the compiler might place the load late, and the
    // last product would wait for it.
    const int flags = memory_.flags[slot];
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < (Shape::keeps_k ? last_step : D / 16); ++step)
      Wgmma<T, Shape::queries>::multiply_ss(p, kv_operand(memory_.k, step), q.k_major(step), step > 0);
    if constexpr (Shape::keeps_k)
      Wgmma<T, Shape::queries>::multiply_rs_b_k_major(p, k_, q.k_major(last_step), 1);
    warpgroup_commit_batch();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::queries>::multiply_ss(dp, kv_operand(memory_.v, step), dout.k_major(step), step > 0);
    warpgroup_commit_batch();
    if constexpr (Shape::late_dk) {
      load_lse(count);  // comes as late as this because there was no room while dq was in registers
      end_block<2>(count - 1, ds, (flags & block_first) == 0);
    }
    Operand p_operand;  // here, because the product for dv reads it until its batch is complete
    if constexpr (early_dv)
      compute_ds_beside_dv(count, (flags & block_masked) != 0, lse_delta, p, dp, p_operand, ds, dout);
    else
      compute_ds_before_dv(count, (flags & block_masked) != 0, lse_delta, p, dp, p_operand, ds, dout);
    issue_dq(count - 1, dq);
    issue_dkv(dk_, ds, q);
    // Everything else happens while these products run.
    const bool more = (flags & block_last) == 0;
    // The next block is waited for even if there is none: otherwise the lse of this block would be kept in
    // registers.
    const int next = wait_for_info(count + 1);
    warpgroup_wait<1>();
    warpgroup_fence_operand(dq);
    if ((flags & block_first) == 0) store_dq(count - 1, (flags & block_before_clean) != 0, dq);
    if (more) wait_for_q_dout(count + 1, next);
    if constexpr (!Shape::late_dk) end_block<0>(opaque(count), ds);
    return more;
  }

  // Computes P and dS from S and dP, whose products are running; stores dS, for dq; and starts the
  // product for dv. This is for shapes that have registers for P beside dS: the product for dv starts
  // first, and dS is computed beside it.
  __device__ __forceinline__ void compute_ds_beside_dv(int count, bool masked, const LseDeltaPair* lse_delta,
                                                       Scores& p, Scores& dp, Operand& p_operand, Operand& ds,
                                                       const QueryRows& dout) {
    float2 minus_delta[n_tiles];
    compute_p(count, masked, lse_delta, p, dp, minus_delta);
    pack_operand<T>(p, p_operand);
    issue_dkv(dv_, p_operand, dout);
    wait_for_ds(count - 1);
    const int tile = DsTiles::stage(count);
    if (masked) zero_dead_dp(dp, p);
    if (has_softcap())
      compute_capped<0, n_tiles>(dp, p, lse_delta);
    else
      compute_ds<early_delta, 0, n_tiles>(dp, params_.ds_factor, p, lse_delta, minus_delta);
    pack_operand<T>(dp, ds);
    wait_for_ds_buffer(tile, count);
    publish_ds(tile, ds);
  }
  // Does the same for shapes in which P and dS share registers: the product for dv starts last.
  __device__ __forceinline__ void compute_ds_before_dv(int count, bool masked, const LseDeltaPair* lse_delta,
                                                       Scores& p, Scores& dp, Operand& p_operand, Operand& ds,
                                                       const QueryRows& dout) {
    float2 minus_delta[n_tiles];
    wait_for_ds(count - 1);
    compute_p(count, masked, lse_delta, p, dp, minus_delta);
    const int tile = DsTiles::stage(count);
    if (masked) zero_dead_dp(dp, p);
    // The wait contains a branch, and no load is moved above a branch. Between the halves of dS it keeps the
    // loads of the second half from taking registers early.
    if (has_softcap()) {
      compute_capped<0, n_tiles / 2>(dp, p, lse_delta);
      wait_for_ds_buffer(tile, count);
      compute_capped<n_tiles / 2, n_tiles>(dp, p, lse_delta);
    } else {
      compute_ds<early_delta, 0, n_tiles / 2>(dp, params_.ds_factor, p, lse_delta, minus_delta);
      wait_for_ds_buffer(tile, count);
      compute_ds<early_delta, n_tiles / 2, n_tiles>(dp, params_.ds_factor, p, lse_delta, minus_delta);
    }
    pack_operand<T>(p, p_operand);
    pack_operand<T>(dp, ds);
    publish_ds(tile, ds);
    issue_dkv(dv_, p_operand, dout);
  }
  // Waits until the products for dq have read what was in the tile where dS of block `count` goes.
  __device__ __forceinline__ void wait_for_ds_buffer(int tile, int count) {
    wait(shared_address(&memory_.ds_empty[tile]), DsTiles::parity(count) ^ 1);
  }
  __device__ __forceinline__ void publish_ds(int tile, const Operand& ds) {
    store_ds(memory_.ds[tile], ds);
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.ds_full[tile]));
  }

  // Waits until block `count` has been added to dk, and gives back its Q and dO; `pending` batches of
  // products were committed after its own. All lanes arrive, each for what it has read of BlockInfo of blocks
  // before, because racecheck does not see that one lane's arrival orders what other lanes have read.
  template <int pending>
  __device__ __forceinline__ void end_block(int count, const Operand& ds, bool exists = true) {
    warpgroup_wait<pending>();
    if constexpr (Shape::late_dk) warpgroup_keep_operand(ds);
    warpgroup_fence_operand(dk_[0]);
    if (exists) arrive(shared_address(&memory_.empty[Stages::stage(count)]));
  }

  // Waits for dS of block `count` from all warpgroups, for dq.
  __device__ __forceinline__ void wait_for_ds(int count) {
    wait(shared_address(&memory_.ds_full[DsTiles::stage(count)]), DsTiles::parity(count));
    fence_view_async_shared();
  }

  // Waits for K and V of the tile whose first block is `count`. K becomes an operand for dq, so rows that no
  // query sees are zeroed, because they may hold NaN. Each thread zeroes 64 columns of one row.
  __device__ __forceinline__ void wait_for_kv(int count) {
    const int thread = opaque(thread_index()) - warpgroup_threads;
    const int row = thread / 2, half = thread % 2;
    const int place = memory_.bounds[InfoStages::stage(count)].segment;
    const WorkTile tile = memory_.tile[place].rows;
    const int key = tile.begin + row;
    const bool live =
        key < tile.end && (has_live_pair<Owner::keys>(key, memory_.tile[place].segment) ||
                           has_live_pair<Owner::keys>(key, tile, params_.call.by_k.segments, 1));
    memory_.live[row] = live;
    wait(shared_address(&memory_.kv_full), place & 1);
    if (!live && half < D / 64)
      zero_row_of_64(memory_.k[row / 64] + half * Shape::key_half_bytes + row % 64 * 128);
    fence_view_async_shared();
    if (lane() == 0) tma_store_wait();  // until TMA has read dk and dv of the tile before
    named_barrier_sync(1, Shape::consumers * warpgroup_threads);
  }

  // Starts the product for this warpgroup's part of dq of block `count`. This is called for the block before
  // a tile's first, too, and the result is not used: a loop without a special first iteration needs fewer
  // registers.
  __device__ __forceinline__ void issue_dq(int count, DqAccumulators& dq) {
    warpgroup_arrive();
    const TileDescriptor<Shape::ds_group_bytes> ds(
        shared_address(memory_.ds[DsTiles::stage(count)][Shape::shares_queries ? warpgroup_ : 0]));
#pragma unroll
    for (int step = 0; step < Shape::keys / 16; ++step) {
      const TileDescriptor<Shape::key_half_bytes> k(
          shared_address(memory_.k[step / 4]) +
          (Shape::shares_queries ? 0 : warpgroup_ * Shape::key_half_bytes));
      Wgmma<T, 64 * dq_parts>::multiply_ss_mn_major(dq, ds.mn_major(step), k.mn_major(step % 4), step > 0);
    }
    warpgroup_commit_batch();
  }

  // Sends the accumulators of dq of block `count` on their way to memory. Their product is complete.
  __device__ __forceinline__ void store_dq(int count, bool clean, const DqAccumulators& dq) {
    if (lane() == 0) arrive(shared_address(&memory_.ds_empty[DsTiles::stage(count)]));
    const int slot = InfoStages::stage(count);
    const DqTile<Shape> tile{params_, memory_, warpgroup_, slot,
                             count,   clean,   dq,         gradient_factor<T>(params_.call)};
    const bool staged = Shape::DqSum::hand_over(tile);
    dq_staging().publish(staged ? slot : dq_nothing_staged);
  }

  // Ends a tile, whose last block is `count`: dq of that block goes to memory, and so do dk and dv.
  __device__ __forceinline__ void end_tile(int count, DqAccumulators& dq) {
    const EndOfTile<T, Shape> at{params_, memory_, warpgroup_, count, dk_, dv_};
    DkvEpilogue<T, Shape> epilogue(at);
    wait_for_ds(count);
    issue_dq(count, dq);
    epilogue.beside_last_dq();
    __syncwarp();
    warpgroup_wait<0>();
    warpgroup_fence_operand(dq);
    if (Shape::keeps_k || lane() == 0) arrive(shared_address(&memory_.kv_empty));
    store_dq(count, (memory_.flags[InfoStages::stage(count)] & block_clean) != 0, dq);
    epilogue.wait_for_room();
    warpgroup_fence_operand(dk_[0]);
    warpgroup_fence_operand(dv_[0]);
    epilogue.write();
  }

  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  // Waits for S, and makes P of it, in place; lse and delta of the queries are read on the way. Then waits
  // for dP.
  __device__ __forceinline__ void compute_p(int count, bool masked, const LseDeltaPair* lse_delta, Scores& p,
                                            Scores& dp, float2 (&minus_delta)[n_tiles]) {
    warpgroup_wait<1>();
    warpgroup_fence_operand(p);
    change_scores(count, p);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      if constexpr (!early_dv) {
        if (n % 4 == 0) asm volatile("" ::: "memory");  // no load may move above this: registers are short
        lse_[n] = lse_delta[4 * n].lse;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[n][e] = exp2_approx(fmaf(p[n][e], params_.scale_log2, e % 2 == 0 ? -lse_[n].x : -lse_[n].y));
      if constexpr (early_delta) minus_delta[n] = lse_delta[4 * n].minus_delta;
    }
    if (masked) {
      const Block& block = memory_.bounds[InfoStages::stage(count)];
      mask_dead_by_bits(p, block, first_key(memory_.tile[block.segment]), 0);
    }
    warpgroup_fence_operand(p);
    warpgroup_wait<0>();
    warpgroup_fence_operand(dp);
  }

  // Changes scores, before they are exponentiated.
  __device__ __forceinline__ void change_scores(int count, Scores& s) const {
    if constexpr (Shape::changes_scores) {
      const ScoreParams& by = params_.scores;
      if (by.slopes != nullptr) {
        const int slot = InfoStages::stage(count);
        const Block& block = memory_.bounds[slot];
        const ScoreLine& line = memory_.scores.of[slot];
        const int key = first_key(memory_.tile[block.segment]) + lane() / 4;
        const int first = by.step * (key - block.begin - 2 * (lane() & 3)) + line.shift;
        subtract_distances(s, line.slope, -by.step, {first, first + 8 * by.step});
      }
      if (by.inner != 0) cap_scores(s, by);
    }
  }
  __device__ __forceinline__ bool has_softcap() const {
    if constexpr (Shape::changes_scores)
      return params_.scores.inner != 0;
    else
      return false;
  }

  template <int begin, int end>
  __device__ __forceinline__ void compute_capped(Scores& dp, const Scores& p,
                                                 const LseDeltaPair* lse_delta) const {
    if constexpr (Shape::changes_scores)
      compute_capped_ds<begin, end>(dp, params_.ds_factor, p, lse_delta, params_.scores);
  }

  // Starts acc += operand times rows of the block: dv += P^T dO, dk += dS^T Q.
  __device__ __forceinline__ void issue_dkv(Accumulators<1, D / 8>& acc, const Operand& operand,
                                            const QueryRows& rows) {
    warpgroup_fence_operand(acc[0]);
    warpgroup_arrive();
#pragma unroll
    for (int step = 0; step < n_tiles / 2; ++step)
      Wgmma<T, D>::multiply_rs(acc[0], operand[step], rows.mn_major(step), 1);
    warpgroup_commit_batch();
  }

  __device__ __forceinline__ std::uint64_t kv_operand(
      const unsigned char (&tiles)[Shape::consumers][Shape::key_bytes], int step) const {
    return TileDescriptor<Shape::key_half_bytes>(shared_address(tiles[warpgroup_])).k_major(step);
  }

  __device__ __forceinline__ DqStaging<Shape> dq_staging() const {
    return {memory_, warpgroup_};
  }

  const typename Shape::Params& params_;
  FusedStorage<Shape>& memory_;
  int warpgroup_;
  std::uint32_t k_[4];   // the columns of K that Shape::keeps_k keeps
  float2 lse_[n_tiles];  // lse of the queries that the lane has as columns
  Accumulators<1, D / 8> dk_, dv_;
};

}  // namespace cplab::kernels::cuda::hopper
