// Forward attention for Hopper: one warpgroup brings tiles by the copy engine, the others each own 64 query
// rows and multiply by wgmma. While a block's softmax runs, the product of the next block's Q K^T and of this
// one's P V run in the tensor cores (FlashAttention 3, arXiv 2407.08608).
//
// K and V have rings of two stages each, K one block ahead of V. With every K the producer hands over the
// block's bounds, so that only it walks the segments; a block without a segment is the end.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/blocks.cuh"
#include "kernels/cuda/hopper/descriptor.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/hopper/wgmma.cuh"
#include "kernels/cuda/softmax_rows.cuh"

namespace cplab::kernels::cuda::hopper {

struct HopperAttendParams {
  AttendParams call;
  CUtensorMap q, k, v, out;
  bool stores_tiles = false;  // out is stored in the dtype of q, by the copy engine
  float scale_log2 = 0;
  int heads_per_group = 1;  // whose keys and values stay in the L2 cache while their tiles run
};

// W consumer warpgroups of 64 query rows. Two at head size 128 and three at 64 are fastest where there are
// tiles enough for every multiprocessor; fewer make more tiles.
template <int D, int W>
struct HopperAttendShape {
  static constexpr int consumers = W;
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;
  static constexpr int keys = 128;
  static constexpr int stages = 2;
  // 65536 / threads at launch, in steps of 8; what the producer gives, the consumers take. One consumer
  // warpgroup has enough from the start.
  static constexpr int producer_registers = consumers == 2 ? 40 : 32;
  static constexpr int consumer_registers = consumers == 2 ? 232 : 160;
  static constexpr int q_half = 64 * 128, k_half = keys * 128;  // bytes of 64 columns
  static constexpr int q_bytes = 64 * D * 2, k_bytes = keys * D * 2;
};

template <int D, int W>
struct alignas(1024) HopperAttendMemory {
  using Shape = HopperAttendShape<D, W>;
  unsigned char q[Shape::consumers][Shape::q_bytes];
  unsigned char k[Shape::stages][Shape::k_bytes];
  unsigned char v[Shape::stages][Shape::k_bytes];
  Block bounds[Shape::stages];
  std::uint64_t q_full, k_full[Shape::stages], k_empty[Shape::stages], v_full[Shape::stages],
      v_empty[Shape::stages];
};

// One thread.
template <int D, int W>
__device__ __forceinline__ void produce_tiles(const HopperAttendParams& params,
                                              HopperAttendMemory<D, W>& memory, const WorkTile& tile,
                                              int head) {
  using Shape = HopperAttendShape<D, W>;
  using Stages = Ring<Shape::stages>;
  const int kv_head = head / (params.call.q.heads / params.call.k.heads);
  // Hands over the bounds of block `count`, with its keys if it has any.
  const auto bring_keys = [&](const Block& block, int count) {
    const int stage = Stages::stage(count);
    const std::uint32_t full = shared_address(&memory.k_full[stage]);
    wait(shared_address(&memory.k_empty[stage]), Stages::parity(count) ^ 1);
    memory.bounds[stage] = block;
    if (!block.live()) return arrive(full);
    arrive_expecting(full, Shape::k_bytes);
    copy_tile(shared_address(memory.k[stage]), params.k, block.begin, kv_head, full);
  };
  Block block = first_block<Owner::queries>(0, 1, tile, params.call.work.segments);
  if (block.live()) {
    const std::uint32_t full = shared_address(&memory.q_full);
    arrive_expecting(full, Shape::consumers * Shape::q_bytes);
    for (int n = 0; n < Shape::consumers; ++n)
      copy_tile(shared_address(memory.q[n]), params.q, tile.begin + 64 * n, head, full);
  }
  bring_keys(block, 0);
  for (int count = 0; block.live(); ++count) {
    const Block next = next_block<Owner::queries, Shape::keys>(block, 1, tile, params.call.work.segments);
    bring_keys(next, count + 1);
    const int stage = Stages::stage(count);
    const std::uint32_t full = shared_address(&memory.v_full[stage]);
    wait(shared_address(&memory.v_empty[stage]), Stages::parity(count) ^ 1);
    arrive_expecting(full, Shape::k_bytes);
    copy_tile(shared_address(memory.v[stage]), params.v, block.begin, kv_head, full);
    block = next;
  }
}

// What one consumer warp keeps of its 16 rows while it walks the keys.
template <class T, int D, int W>
class HopperRows {
 public:
  using Shape = HopperAttendShape<D, W>;
  using Stages = Ring<Shape::stages>;
  static constexpr int n_tiles = Shape::keys / 8;

  __device__ __forceinline__ HopperRows(HopperAttendMemory<D, W>& memory, int first_row, float scale_log2)
      : memory_(memory), first_row_(first_row), scale_log2_(scale_log2) {
    clear(out);
  }

  float out[1][D / 8][4];
  SoftmaxRows softmax = {{-infinity(), -infinity()}, {0, 0}};

  __device__ __forceinline__ bool has_block(int count) {
    wait(shared_address(&memory_.k_full[Stages::stage(count)]), Stages::parity(count));
    return memory_.bounds[Stages::stage(count)].live();
  }

  // Queues S = Q K^T of a block.
  __device__ __forceinline__ void queue_scores(int count, const TileDescriptor<Shape::q_half>& q) {
    const TileDescriptor<Shape::k_half> k(shared_address(memory_.k[Stages::stage(count)]));
    pin(scores_);
    fence_products();
#pragma unroll
    for (int step = 0; step < D / 16; ++step)
      Wgmma<T, Shape::keys>::multiply_shared(scores_, q.contiguous(step), k.contiguous(step), step > 0);
    commit_products();
  }

  // Scores that are there become weights; out waits for its shrink.
  __device__ __forceinline__ void weigh_scores(int count) {
    pin(scores_);
    const Block& block = memory_.bounds[Stages::stage(count)];
    valid_keys_ = block.end - block.begin;
    if (!all_live<Shape::keys>(block, first_row_)) mask_dead(scores_, block, first_row_, -infinity());
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.k_empty[Stages::stage(count)]));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float held = softmax.maximum[half];
      float highest = held;
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
        highest = fmaxf(highest, fmaxf(scores_[n][2 * half], scores_[n][2 * half + 1]));
      highest = row_max(highest);
      softmax.maximum[half] = highest;
      const float shift = shift_of(highest, scale_log2_);
      // Without fusing: exactly 1 where the maximum stays.
      shrink_[half] = exp2_approx(__fmul_rn(held, scale_log2_) - shift);
      float sum = 0;
#pragma unroll
      for (int n = 0; n < n_tiles; ++n)
#pragma unroll
        for (int e = 2 * half; e < 2 * half + 2; ++e) {
          scores_[n][e] = exp2_approx(fmaf(scores_[n][e], scale_log2_, -shift));
          sum += scores_[n][e];
        }
      softmax.sum[half] = fmaf(softmax.sum[half], shrink_[half], sum);
    }
  }

  // The weights as operand of the next product: no earlier one may still read the registers.
  __device__ __forceinline__ void pack_weights() {
    pack_operand<T>(scores_, weights_);
  }

  // Queues out += P V of a block.
  __device__ __forceinline__ void queue_values(int count) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory_.v_full[stage]), Stages::parity(count));
    if (valid_keys_ < Shape::keys) clear_values(stage);
    const TileDescriptor<Shape::k_half> v(shared_address(memory_.v[stage]));
    pin(out[0]);
    fence_products();
#pragma unroll
    for (int step = 0; step < Shape::keys / 16; ++step)
      Wgmma<T, D>::multiply_registers(out[0], weights_[step], v.strided(step), 1);
    commit_products();
  }

  // After the wait: V may be overwritten.
  __device__ __forceinline__ void release_values(int count) {
    pin(out[0]);
    __syncwarp();
    if (lane() == 0) arrive(shared_address(&memory_.v_empty[Stages::stage(count)]));
  }

  __device__ __forceinline__ void shrink_out() {
#pragma unroll
    for (int d = 0; d < D / 8; ++d)
#pragma unroll
      for (int e = 0; e < 4; ++e) out[0][d][e] *= shrink_[e / 2];
  }

 private:
  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  // Rows of V beyond the block's keys belong to somebody else, or to nobody: 0 times NaN must not happen.
  __device__ __forceinline__ void clear_values(int stage) {
    constexpr int consumer_threads = Shape::consumers * warpgroup_threads;
    constexpr int chunks = Shape::k_half / Shape::keys / 16;  // of 16 bytes in a row of 64 columns
    const int count = (Shape::keys - valid_keys_) * chunks;
    for (int half = 0; half < D / 64; ++half)
      for (int n = thread_index() - warpgroup_threads; n < count; n += consumer_threads)
        *reinterpret_cast<uint4*>(memory_.v[stage] + half * Shape::k_half + valid_keys_ * 128 + n * 16) =
            make_uint4(0, 0, 0, 0);
    fence_shared_writes();
    sync_threads_of(1, consumer_threads);
  }

  HopperAttendMemory<D, W>& memory_;
  int first_row_;
  float scale_log2_;
  int valid_keys_ = 0;  // of the block whose weights are held
  float shrink_[2];
  float scores_[n_tiles][4];
  std::uint32_t weights_[n_tiles / 2][4];
};

// The sums of 64 rows, times their factors, as a tile of 16 bits: eight rows of four bytes a lane hit all
// banks once, by the swizzle.
template <class T, int d_tiles>
__device__ __forceinline__ void stage_rows(unsigned char* tile, const float (&sums)[d_tiles][4],
                                           const RowUpdate (&updates)[2]) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int row = 16 * (thread_index() / 32 % 4) + 8 * half + lane / 4;
    const float factor = updates[half].factor;
#pragma unroll
    for (int d = 0; d < d_tiles; ++d) {
      const int byte = d / 8 * 64 * 128 + row * 128 + d % 8 * 16 + lane % 4 * 4;
      std::uint32_t pair = 0;  // a factor of 0 stands for no sums at all
      if (factor != 0) pair = Element<T>::pack(sums[d][2 * half] * factor, sums[d][2 * half + 1] * factor);
      *reinterpret_cast<std::uint32_t*>(tile + (byte ^ (row & 7) << 4)) = pair;
    }
  }
}

// The rows of one consumer warpgroup.
template <class T, int D, int W>
__device__ __forceinline__ void consume_tiles(const HopperAttendParams& params,
                                              HopperAttendMemory<D, W>& memory, const WorkTile& tile,
                                              int head, int warpgroup) {
  using Shape = HopperAttendShape<D, W>;
  const AttendParams& call = params.call;
  const int warp = thread_index() / 32 - 4;
  const int first_row = tile.begin + 16 * warp;
  HopperRows<T, D, W> rows(memory, first_row, params.scale_log2);
  if (rows.has_block(0)) {
    wait(shared_address(&memory.q_full), 0);
    const TileDescriptor<Shape::q_half> q(shared_address(memory.q[warpgroup]));
    rows.queue_scores(0, q);
    wait_for_products<0>();
    rows.weigh_scores(0);
    rows.pack_weights();
    int count = 1;
#pragma unroll 1
    for (; rows.has_block(count); ++count) {
      rows.queue_scores(count, q);
      rows.queue_values(count - 1);
      wait_for_products<1>();
      rows.weigh_scores(count);
      wait_for_products<0>();
      rows.release_values(count - 1);
      rows.shrink_out();
      rows.pack_weights();
    }
    rows.queue_values(count - 1);
    wait_for_products<0>();
    rows.release_values(count - 1);
  }
  RowUpdate updates[1][2];
  finish_rows<1, 1>(call, &rows.softmax, params.scale_log2, head, first_row, tile.end, thread_index() % 32,
                    updates);
  if (!params.stores_tiles)
    return write_rows(rows.out, call.out, head, first_row, updates, thread_index() % 32);
  // The warpgroup's own queries are no longer needed: out goes there, and from there by one thread.
  sync_threads_of(2 + warpgroup, warpgroup_threads);
  stage_rows<T>(memory.q[warpgroup], rows.out[0], updates[0]);
  fence_shared_writes();
  sync_threads_of(2 + warpgroup, warpgroup_threads);
  const int row = tile.begin + 64 * warpgroup;
  if (thread_index() % warpgroup_threads != 0 || row >= tile.end) return;
  store_tile(params.out, row, head, shared_address(memory.q[warpgroup]));
  finish_stores();
}

template <class T, int D, int W>
__global__ void __launch_bounds__(HopperAttendShape<D, W>::threads, 1)
    attend_hopper_kernel(const __grid_constant__ HopperAttendParams params) {
  using Shape = HopperAttendShape<D, W>;
  extern __shared__ unsigned char attend_hopper_shared[];
  const std::uint32_t base = shared_address(attend_hopper_shared);
  auto& memory =
      *reinterpret_cast<HopperAttendMemory<D, W>*>(attend_hopper_shared + (1024 - base % 1024) % 1024);
  int tile_index, head;
  choose_tile(params.call.work, params.call.q.heads, params.heads_per_group, tile_index, head);
  const WorkTile tile = params.call.work.tiles[tile_index];
  if (threadIdx.x == 0) {
    constexpr int consumer_warps = 4 * Shape::consumers;
    init_barrier(shared_address(&memory.q_full), 1);
    for (int stage = 0; stage < Shape::stages; ++stage) {
      init_barrier(shared_address(&memory.k_full[stage]), 1);
      init_barrier(shared_address(&memory.v_full[stage]), 1);
      init_barrier(shared_address(&memory.k_empty[stage]), consumer_warps);
      init_barrier(shared_address(&memory.v_empty[stage]), consumer_warps);
    }
    fence_barrier_init();
  }
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    if constexpr (W > 1) give_registers<Shape::producer_registers>();
    if (threadIdx.x == 0) produce_tiles<D, W>(params, memory, tile, head);
  } else {
    if constexpr (W > 1) take_registers<Shape::consumer_registers>();
    consume_tiles<T, D, W>(params, memory, tile, head, warpgroup - 1);
  }
}

}  // namespace cplab::kernels::cuda::hopper
