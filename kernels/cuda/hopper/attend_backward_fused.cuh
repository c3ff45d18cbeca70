// All gradients of attention in one kernel for Hopper: S and dP are computed once, dq is added to global
// memory by many thread blocks, in no order: its last bits differ from run to run.
//
// A thread block takes tile after tile of 128 keys, 64 to a consumer warpgroup, and blocks of queries pass
// by. The next tile's keys and first queries come while dk and dv of the last one leave. Everything is
// transposed, so that P and dS stay in registers as operands (FlashAttention 3, arXiv 2407.08608):
//   S^T = K Q^T, dP^T = V dO^T, P^T = exp2(scale S^T - lse), dS^T = P^T (dP^T - delta)
//   dv += P^T dO, dk += dS^T Q
// For dq both warpgroups' dS^T meet in shared memory, and each multiplies it by half of the columns of K
// (head size 128) or for half of the queries (64). That product runs one block behind: with two tiles of dS
// and barriers that count, the warpgroups drift apart, and one's arithmetic runs beside the other's products.
// Sums of dq are staged in shared memory, and the copy engine adds them to dq.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/descriptor.cuh"
#include "kernels/cuda/hopper/fused_dq.cuh"
#include "kernels/cuda/hopper/fused_producers.cuh"
#include "kernels/cuda/hopper/fused_rows.cuh"
#include "kernels/cuda/hopper/fused_tiles.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"

namespace cplab::kernels::cuda::hopper {

// Rows of Q and dO that belong to nobody, or to queries without a gradient: 0 times NaN must not happen.
template <int D>
__device__ __forceinline__ void clean_queries(FusedMemory<D>& memory, int stage, int slot) {
  using Shape = FusedShape<D>;
  constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
#pragma unroll 1
  for (int n = thread_index() - warpgroup_threads; n < Shape::query_bytes / 16; n += consumer_threads) {
    const int row = n / 8 % Shape::queries;  // eight pieces of 16 bytes a row of 64 columns
    if (lse_of(memory.pairs[slot], row) != infinity()) continue;
    reinterpret_cast<uint4*>(memory.q[stage])[n] = make_uint4(0, 0, 0, 0);
    reinterpret_cast<uint4*>(memory.dout[stage])[n] = make_uint4(0, 0, 0, 0);
  }
  fence_shared_writes();
  sync_threads_of(1, consumer_threads);
}

template <class T, int D>
class FusedConsumer {
 public:
  using Shape = FusedShape<D>;
  using Stages = Ring<Shape::stages>;
  using Facts = Ring<Shape::facts>;
  static constexpr int n_tiles = Shape::queries / 8;
  // Of 64 of the block's queries and 64 columns: the warpgroups share either.
  static constexpr bool share_queries = Shape::queries == 128;
  // Early, dv's product runs beside the arithmetic of dS; late, P and S share registers.
  static constexpr bool early_values = Shape::queries == 64;

  __device__ __forceinline__ FusedConsumer(const FusedParams& params, FusedMemory<D>& memory, int warpgroup)
      : params_(params), memory_(memory), warpgroup_(warpgroup) {}

  // All tiles of the thread block.
  __device__ __forceinline__ void run() {
    float dq[8][4];
    int count = 0;
#pragma unroll 1
    for (int flags; ((flags = take_facts(count)) & block_live) != 0;) {
      clear(dk_);
      clear(dv_);
      wait_for_rows(count, flags);
      wait_for_keys(count);
#pragma unroll 1
      while (take_block(count, dq)) ++count;
      finish_tile(count, dq);
      ++count;
    }
    if (lane() == 0) finish_stores();
    wait_for_staging(count);
    hand_over(staged_end);  // no more sums will be staged
  }

 private:
  // The flags of block `count`, if there is one; its facts are at hand.
  __device__ __forceinline__ int take_facts(int count) {
    const int slot = Facts::stage(count);
    wait(shared_address(&memory_.facts_full[slot]), Facts::parity(count));
    if constexpr (early_values) {
#pragma unroll
      for (int n = 0; n < n_tiles; ++n) lse_[n] = memory_.pairs[slot][4 * n + lane() % 4].lse;
    }
    return memory_.flags[slot];
  }

  // Its rows are there.
  __device__ __forceinline__ void wait_for_rows(int count, int flags) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory_.full[stage]), Stages::parity(count));
    if ((flags & block_clean) == 0) clean_queries(memory_, stage, Facts::stage(count));
  }

  // All products of a prepared block but dq's, and dq of the one before in the tile, which goes to memory.
  // Returns whether there is a next one in the tile, prepared.
  __device__ __forceinline__ bool take_block(int count, float (&dq)[8][4]) {
    const int stage = Stages::stage(count), slot = Facts::stage(count);
    const TileDescriptor<Shape::query_half> q(shared_address(memory_.q[stage]));
    const TileDescriptor<Shape::query_half> dout(shared_address(memory_.dout[stage]));
    float p[n_tiles][4], dp[n_tiles][4];
    fence_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::queries>::multiply_shared(p, keys_at(memory_.k, step), q.contiguous(step), step > 0);
    commit_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::queries>::multiply_shared(dp, keys_at(memory_.v, step), dout.contiguous(step),
                                                step > 0);
    commit_products();
    const auto wait_for_slopes_before = [&] {  // dS of the block before, from all warps, for its dq
      wait(shared_address(&memory_.slopes_full[(count & 1) ^ 1]), (count - 1) >> 1 & 1);
      fence_shared_writes();
    };
    if constexpr (!early_values) wait_for_slopes_before();
    const QueryPair* const pairs = memory_.pairs[slot] + lane() % 4;
    const int flags = memory_.flags[slot];
    const bool masked = (flags & block_masked) != 0;
    wait_for_products<1>();
    float2 minus_delta[n_tiles];
    weigh(p, pairs, masked, slot, minus_delta);
    std::uint32_t weights[n_tiles / 2][4], slopes[n_tiles / 2][4];  // P and dS
    pin(p);
    wait_for_products<0>();
    pin(dp);
    if constexpr (early_values) {
      pack_operand<T>(p, weights);
      queue_sums(dv_, weights, dout);
      wait_for_slopes_before();
    }
    const int tile = anew(count) % 2;
    const auto wait_for_slopes = [&] {
      wait(shared_address(&memory_.slopes_empty[tile]), (count / 2 & 1) ^ 1);
    };
    if (masked) ignore_dead(dp, p);
    // The wait is a branch across which the compiler loads nothing early: late, registers are short.
    differentiate<0, n_tiles / 2>(dp, p, pairs, minus_delta);
    if constexpr (!early_values) wait_for_slopes();
    differentiate<n_tiles / 2, n_tiles>(dp, p, pairs, minus_delta);
    if constexpr (!early_values) pack_operand<T>(p, weights);
    pack_operand<T>(dp, slopes);
    if constexpr (early_values) wait_for_slopes();
    store_slopes(memory_.slopes[tile], slopes);
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.slopes_full[tile]));
    if constexpr (!early_values) queue_sums(dv_, weights, dout);
    queue_dq(count - 1, dq);
    queue_sums(dk_, slopes, q);
    // The rest while these products run.
    const bool more = (flags & block_last) == 0;
    const int next = take_facts(count + 1);  // always: else registers would keep the lse of this one
    wait_for_products<1>();
    pin(dq);
    if ((flags & block_first) == 0) send_dq(count - 1, (flags & block_before_clean) != 0, dq);
    if (more) wait_for_rows(count + 1, next);
    wait_for_products<0>();
    pin(dk_[0]);
    if (lane() == 0) arrive(shared_address(&memory_.empty[Stages::stage(anew(count))]));
    return more;
  }

  // The keys of the tile whose first block is `count`. Rows of K that no query sees may hold anything, and
  // become an operand for dq: 0 times NaN must not happen. Of 128 rows, a thread for every 64 columns of one.
  __device__ __forceinline__ void wait_for_keys(int count) {
    const int thread = anew(thread_index()) - warpgroup_threads;
    const int row = thread / 2, half = thread % 2;
    const int place = memory_.bounds[Facts::stage(count)].segment;
    const WorkTile tile = memory_.tile[place].rows;
    const int key = tile.begin + row;
    const bool live =
        key < tile.end && (has_live_pair<Owner::keys>(key, memory_.tile[place].segment) ||
                           has_live_pair<Owner::keys>(key, tile, params_.call.by_k.segments, 1));
    memory_.live[row] = live;
    wait(shared_address(&memory_.keys_full), place & 1);
    if (!live && half < D / 64) {
      auto* const pieces =
          reinterpret_cast<uint4*>(memory_.k[row / 64] + half * Shape::key_half + row % 64 * 128);
      for (int piece = 0; piece < 8; ++piece) pieces[piece] = make_uint4(0, 0, 0, 0);
    }
    fence_shared_writes();
    if (lane() == 0) finish_stores();  // dk of the tile before has left
    sync_threads_of(1, Shape::consumers * warpgroup_threads);
  }

  // Queues dq of a block, for the 64 x 64 sums of this warpgroup. Of the block before a tile's first, whose
  // sums nobody takes, too: a loop without a special first turn needs fewer registers.
  __device__ __forceinline__ void queue_dq(int count, float (&dq)[8][4]) {
    const int tile = count & 1;
    fence_products();
    const TileDescriptor<Shape::keys * 128> ds(
        shared_address(memory_.slopes[tile][share_queries ? warpgroup_ : 0]));
#pragma unroll
    for (int step = 0; step < Shape::keys / 16; ++step) {
      const TileDescriptor<Shape::key_half> k(shared_address(memory_.k[step / 4]) +
                                              (share_queries ? 0 : warpgroup_ * Shape::key_half));
      Wgmma<T, 64>::multiply_strided(dq, ds.strided(step), k.strided(step % 4), step > 0);
    }
    commit_products();
  }

  // Its product is done: the sums go to dq.
  __device__ __forceinline__ void send_dq(int count, bool clean, const float (&dq)[8][4]) {
    if (lane() == 0) arrive(shared_address(&memory_.slopes_empty[count & 1]));
    const int slot = Facts::stage(count);
    const auto scale = static_cast<float>(params_.call.scale);
    const bool staged = params_.reduces_tiles && clean;
    wait_for_staging(count);
    if (staged) {
      stage_sums(memory_.sums[warpgroup_], dq, scale);
    } else {
      const int place = 64 * warpgroup_;
      add_queries(params_.call.dq, memory_.bounds[slot], memory_.pairs[slot], share_queries ? place : 0,
                  share_queries ? 0 : place, dq, scale);
    }
    hand_over(staged ? slot : staged_nothing);
  }

  // dq of the tile's last block, `count`, goes to memory; dk and dv leave by way of slopes where there is
  // room for both, else dv first by way of the tile's queries, and dk by way of slopes and sums.
  __device__ __forceinline__ void finish_tile(int count, float (&dq)[8][4]) {
    constexpr bool together =
        2 * sizeof(dk_) * Shape::consumers * warpgroup_threads <= sizeof(memory_.slopes);
    const int slot = Facts::stage(count);
    const KeyTile& tile = memory_.tile[memory_.bounds[slot].segment];
    using Gradients = KeyGradients<D>;
    const Gradients gradients(params_, memory_, tile);
    const typename Gradients::Part dv{dv_, params_.dv, params_.call.dv, 1,
                                      together ? memory_.slopes[1][0] : memory_.q[0]};
    const typename Gradients::Part dk{dk_, params_.dk, params_.call.dk,
                                      static_cast<float>(params_.call.scale), memory_.slopes[0][0]};
    if constexpr (!together) {
      sync_threads_of(1, Shape::consumers * warpgroup_threads);
      pin(dv_[0]);
      gradients.template write<T>(dv);
    }
    wait(shared_address(&memory_.slopes_full[count & 1]), count >> 1 & 1);
    fence_shared_writes();
    queue_dq(count, dq);
    if (lane() == 0) {
      if constexpr (!together) finish_stores();
      arrive(shared_address(&memory_.queries_free));
    }
    __syncwarp();
    wait_for_products<0>();
    pin(dq);
    if (lane() == 0) arrive(shared_address(&memory_.keys_empty));
    send_dq(count, (memory_.flags[slot] & block_clean) != 0, dq);
    if constexpr (!together) wait_for_staging(count + 1);
    sync_threads_of(1, Shape::consumers * warpgroup_threads);
    pin(dk_[0]);
    pin(dv_[0]);
    if constexpr (together)
      gradients.template write<T>(dv, dk);
    else
      gradients.template write<T>(dk);
  }

  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  // P from S.
  __device__ __forceinline__ void weigh(float (&p)[n_tiles][4], const QueryPair* pairs, bool masked, int slot,
                                        float2 (&minus_delta)[n_tiles]) {
    pin(p);
#pragma unroll
    for (int n = 0; n < n_tiles; ++n) {
      if constexpr (!early_values) {
        if (n % 4 == 0) asm volatile("" ::: "memory");  // loads not earlier than that: registers are short
        lse_[n] = pairs[4 * n].lse;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e)
        p[n][e] = exp2_approx(fmaf(p[n][e], params_.scale_log2, e % 2 == 0 ? -lse_[n].x : -lse_[n].y));
      if constexpr (early_values) minus_delta[n] = pairs[4 * n].minus_delta;
    }
    if (masked) {
      const Block& block = memory_.bounds[slot];
      mask_dead_by_bits(p, block, first_key(memory_.tile[block.segment]), 0);
    }
  }

  // Where a pair is not live, dP may be anything, and 0 times it too.
  static __device__ __forceinline__ void ignore_dead(float (&dp)[n_tiles][4], const float (&p)[n_tiles][4]) {
#pragma unroll
    for (int n = 0; n < n_tiles; ++n)
#pragma unroll
      for (int e = 0; e < 4; ++e)
        if (p[n][e] == 0) dp[n][e] = 0;
  }

  // dS from dP and P, of some columns.
  template <int begin, int end>
  static __device__ __forceinline__ void differentiate(float (&dp)[n_tiles][4], const float (&p)[n_tiles][4],
                                                       const QueryPair* pairs,
                                                       float2 (&minus_delta)[n_tiles]) {
#pragma unroll
    for (int n = begin; n < end; ++n) {
      if constexpr (!early_values) {
        if (n % 4 == 0) asm volatile("" ::: "memory");
        minus_delta[n] = pairs[4 * n].minus_delta;
      }
#pragma unroll
      for (int e = 0; e < 4; ++e)
        dp[n][e] = p[n][e] * (dp[n][e] + (e % 2 == 0 ? minus_delta[n].x : minus_delta[n].y));
    }
  }

  // Queues sums += operand times rows of the block: dv += P^T dO, dk += dS^T Q.
  __device__ __forceinline__ void queue_sums(Sums<1, D / 8>& sums,
                                             const std::uint32_t (&operand)[n_tiles / 2][4],
                                             const TileDescriptor<Shape::query_half>& rows) {
    pin(sums[0]);
    fence_products();
#pragma unroll
    for (int step = 0; step < n_tiles / 2; ++step)
      Wgmma<T, D>::multiply_registers(sums[0], operand[step], rows.strided(step), 1);
    commit_products();
  }

  __device__ __forceinline__ std::uint64_t keys_at(const unsigned char (&tiles)[2][Shape::key_bytes],
                                                   int step) const {
    return TileDescriptor<Shape::key_half>(shared_address(tiles[warpgroup_])).contiguous(step);
  }

  __device__ __forceinline__ void wait_for_staging(int count) {
    wait(shared_address(&memory_.sums_empty[warpgroup_]), (count & 1) ^ 1);
  }
  __device__ __forceinline__ void hand_over(int what) {
    if (thread_index() % warpgroup_threads == 0) memory_.staged[warpgroup_] = what;
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.sums_full[warpgroup_]));
  }

  const FusedParams& params_;
  FusedMemory<D>& memory_;
  int warpgroup_;
  float2 lse_[n_tiles];  // of its queries
  Sums<1, D / 8> dk_, dv_;
};

template <class T, int D>
__global__ void __launch_bounds__(FusedShape<D>::threads, 1)
    attend_backward_fused_kernel(const __grid_constant__ FusedParams params) {
  using Shape = FusedShape<D>;
  alignas(1024) extern __shared__ unsigned char fused_hopper_shared[];
  auto& memory = *reinterpret_cast<FusedMemory<D>*>(fused_hopper_shared);
  if (threadIdx.x == 32) {
    if (params.call.by_k.segments != nullptr) prefetch_line(params.call.by_k.segments);
    for (const CUtensorMap* map : {&params.k, &params.v, &params.q, &params.dout}) prefetch_map(*map);
    if (params.reduces_tiles) prefetch_map(params.dq);
    if (params.key_rows != KeyRows::one_by_one)
      for (const CUtensorMap* map : {&params.dk, &params.dv}) prefetch_map(*map);
  }
  FusedProducer<D> producer(params, memory);
  if (threadIdx.x == 0) {
    producer.start();
    init_barriers(memory);
  }
  wait_for_earlier_kernels();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    give_registers<Shape::producer_registers>();
    const int warp = static_cast<int>(threadIdx.x) / 32;
    if (warp == 1) produce_facts<D>(params.call, memory);
    if (threadIdx.x % 32 != 0) return;
    if (warp == 0) producer.run();
    if (warp >= 2) send_sums<D>(params, memory, warp - 2);
  } else {
    take_registers<Shape::consumer_registers>();
    FusedConsumer<T, D>(params, memory, warpgroup - 1).run();
  }
}

}  // namespace cplab::kernels::cuda::hopper
