// What the kernel for all gradients (attend_backward_fused.cuh) keeps in shared memory, the threads that
// bring queries there, and those that take sums of dq away.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/blocks.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/hopper/tile_order.cuh"
#include "kernels/cuda/mma_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// How dk and dv are written: each row by itself, or 16 rows at once, fp32 or rounded to the dtype of k.
enum class KeyRows { one_by_one, sums, rounded };

struct FusedParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  CUtensorMap dk, dv;  // of 16 rows
  KeyRows key_rows = KeyRows::one_by_one;
  CUtensorMap dq;              // of fp32, 64 rows x 64 columns
  bool reduces_tiles = false;  // dq has a tensor map
  TileOrder order;
  float scale_log2 = 0;
};

template <int D>
struct FusedShape {
  static constexpr int consumers = 2;  // warpgroups
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int keys = 64 * consumers;
  static constexpr int queries = D == 64 ? 128 : 64;  // of a block
  static constexpr int stages = 2;
  // Facts of blocks live longer than their rows: dq of a block is added while the next one's products run,
  // and the producers look two blocks ahead, which makes six.
  static constexpr int facts = 8;
  static constexpr int producer_registers = 24, consumer_registers = 240;
  static constexpr int key_bytes = 64 * D * 2, key_half = 64 * 128;  // of 64 keys; of their first 64 columns
  static constexpr int query_bytes = queries * D * 2, query_half = queries * 128;
  static_assert(queries == 64 || D == 64, "boxes of 64 rows, one behind the other, make a block");
};

// lse in units of log2 (+inf where the row has no gradient) and minus delta of two queries.
struct alignas(16) QueryPair {
  float2 lse;
  float2 minus_delta;
};

__device__ __forceinline__ float lse_of(const QueryPair* pairs, int query) {
  return reinterpret_cast<const float*>(pairs)[query / 2 * 4 + query % 2];
}

// What consumers need to know of a block of queries.
enum BlockFlags : int {
  block_live = 1,    // else: there are no more
  block_clean = 2,   // every one of its rows is a query with a gradient
  block_masked = 4,  // not all pairs with the thread block's keys are live
};

// Where staged sums of dq go.
struct SumPlace {
  int row, head;
  static constexpr int nothing = -1, end = -2;  // rows: nothing was staged; nor will be
};

template <int D>
struct alignas(1024) FusedMemory {
  using Shape = FusedShape<D>;
  unsigned char k[Shape::consumers][Shape::key_bytes], v[Shape::consumers][Shape::key_bytes];
  unsigned char q[Shape::stages][Shape::query_bytes], dout[Shape::stages][Shape::query_bytes];
  // dS^T, [query / 64][key][64 queries] of 16 bits with the 128-byte swizzle.
  unsigned char slopes[2][Shape::queries / 64][Shape::keys * 128];
  // 64 x 64 sums of dq of each consumer: [column / 32][row][32 columns] of fp32, with the swizzle.
  unsigned char sums[Shape::consumers][64 * 64 * 4];
  QueryPair pairs[Shape::facts][Shape::queries / 2];
  Block found[Shape::facts], bounds[Shape::facts];  // among the producers; for the consumers
  int flags[Shape::facts];
  SumPlace place[Shape::consumers];  // of `sums`
  WorkTile tile;                     // of the thread block, and its head: registers are short
  int head;
  int first_head, stop_head;        // its query heads
  unsigned char live[Shape::keys];  // whether a key has a live pair
  std::uint64_t keys_full, full[Shape::stages], empty[Shape::stages];
  std::uint64_t walked[Shape::facts], facts_full[Shape::facts];
  std::uint64_t slopes_full[2], slopes_empty[2];
  std::uint64_t sums_full[Shape::consumers], sums_empty[Shape::consumers];
};

template <int D>
__device__ __forceinline__ void init_barriers(FusedMemory<D>& memory) {
  using Shape = FusedShape<D>;
  constexpr int warps = 4 * Shape::consumers;
  init_barrier(shared_address(&memory.keys_full), 1);
  for (int n = 0; n < Shape::facts; ++n) {
    init_barrier(shared_address(&memory.walked[n]), 1);
    init_barrier(shared_address(&memory.facts_full[n]), 32);
  }
  for (int n = 0; n < 2; ++n) {
    init_barrier(shared_address(&memory.full[n]), 1);
    init_barrier(shared_address(&memory.empty[n]), warps);
    init_barrier(shared_address(&memory.slopes_full[n]), warps);
    init_barrier(shared_address(&memory.slopes_empty[n]), warps);
    init_barrier(shared_address(&memory.sums_full[n]), 4);
    init_barrier(shared_address(&memory.sums_empty[n]), 1);
  }
  fence_barrier_init();
}

// --- the producers ---------------------------------------------------------------------------------------

// One thread: walks the segments and brings tiles. The bounds of a block are known before there is room for
// its rows.
template <int D>
__device__ __forceinline__ void produce_queries(const FusedParams& params, FusedMemory<D>& memory) {
  using Shape = FusedShape<D>;
  using Stages = Ring<Shape::stages>;
  const DeviceSegment* const segments = params.call.by_k.segments;
  // Each block is found from the one before, which lies in shared memory: registers are short.
  const auto post = [&](int count, const Block& found) {
    memory.found[count % Shape::facts] = found;
    arrive(shared_address(&memory.walked[count % Shape::facts]));
  };
  const auto bring_keys = [&](unsigned char(&into)[2][Shape::key_bytes], const CUtensorMap& map) {
    for (int n = 0; n < Shape::consumers; ++n)
      copy_tile(shared_address(into[n]), map, memory.tile.begin + 64 * n, memory.head,
                shared_address(&memory.keys_full));
  };
  // Before the segments are known, which takes as long as the copy.
  arrive_expecting(shared_address(&memory.keys_full), 2 * Shape::consumers * Shape::key_bytes);
  bring_keys(memory.k, params.k);
  bring_keys(memory.v, params.v);
  post(0, first_block<Owner::keys>(memory.first_head, memory.stop_head, memory.tile, segments));
  for (int count = -1;; ++count) {
    post(count + 2, next_block<Owner::keys, Shape::queries>(memory.found[(count + 1) % Shape::facts],
                                                            memory.stop_head, memory.tile, segments));
    if (count < 0) continue;
    const Block& block = memory.found[count % Shape::facts];
    if (!block.live()) return;
    const int stage = Stages::stage(count);
    const std::uint32_t full = shared_address(&memory.full[stage]);
    wait(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
    const auto bring = [&](unsigned char* into, const CUtensorMap& map) {
      for (int row = 0; row < Shape::queries; row += 64)
        copy_tile(shared_address(into + row * 128), map, block.begin + row, block.head, full);
    };
    arrive_expecting(full, 2 * Shape::query_bytes);
    bring(memory.q[stage], params.q);
    bring(memory.dout[stage], params.dout);
  }
}

// Whether all pairs of the thread block's keys and the block's queries are live.
template <int D>
__device__ __forceinline__ bool all_pairs_live(const Block& block, const WorkTile& tile) {
  using Shape = FusedShape<D>;
  const int key_last = tile.begin + Shape::keys - 1, query_last = block.begin + Shape::queries - 1;
  return tile.begin >= block.row_begin && key_last < block.row_end && query_last < block.end &&
         key_last + block.low <= block.begin && query_last <= tile.begin + block.high;
}

// Starts to copy lse and delta of a block as they are; 0 for rows beyond it.
template <int D>
__device__ __forceinline__ void start_facts(const AttendBackwardParams& call, FusedMemory<D>& memory,
                                            int slot) {
  const int lane = thread_index() % 32;
  const Block& block = memory.found[slot];
  const std::uint32_t pairs = shared_address(memory.pairs[slot]) + lane / 2 * 16 + lane % 2 * 4;
#pragma unroll
  for (int n = 0; n < FusedShape<D>::queries / 32; ++n) {
    const int row = block.begin + lane + 32 * n;
    const bool inside = row < block.end;
    const int read = inside ? row : block.begin;
    copy_float(pairs + 256 * n, row_of<const float>(call.lse, block.head, read), inside);
    copy_float(pairs + 256 * n + 8, row_of<const float>(call.delta, block.head, read), inside);
  }
}

// The copies of a block are there: they become what consumers need.
template <int D>
__device__ __forceinline__ void finish_facts(FusedMemory<D>& memory, int slot) {
  const int lane = thread_index() % 32;
  const Block& block = memory.found[slot];
  if (lane < static_cast<int>(sizeof(Block) / sizeof(int)))
    reinterpret_cast<int*>(&memory.bounds[slot])[lane] = reinterpret_cast<const int*>(&block)[lane];
  float* const pairs = reinterpret_cast<float*>(memory.pairs[slot]) + lane / 2 * 4 + lane % 2;
  bool unclean = false;
#pragma unroll
  for (int n = 0; n < FusedShape<D>::queries / 32; ++n) {
    const float lse = pairs[64 * n];
    const bool empty = block.begin + lane + 32 * n >= block.end || lse == -infinity();
    pairs[64 * n] = empty ? infinity() : lse * log2_e;
    pairs[64 * n + 2] = empty ? 0 : -pairs[64 * n + 2];
    unclean |= empty;
  }
  unclean = __any_sync(all_lanes, unclean) != 0;
  if (lane == 0)
    memory.flags[slot] =
        block_live | (unclean ? 0 : block_clean) | (all_pairs_live<D>(block, memory.tile) ? 0 : block_masked);
  arrive(shared_address(&memory.facts_full[slot]));  // each lane for what it wrote
}

// One warp: brings lse and delta of the blocks that the thread above has found, a block's copies under way
// while the one before is finished: their latency is longer than a block's turn.
template <int D>
__device__ __forceinline__ void produce_facts(const AttendBackwardParams& call, FusedMemory<D>& memory) {
  using Facts = Ring<FusedShape<D>::facts>;
  for (int count = 0;; ++count) {
    const int slot = Facts::stage(count);
    wait(shared_address(&memory.walked[slot]), Facts::parity(count));
    const bool live = memory.found[slot].live();
    if (live) start_facts(call, memory, slot);
    commit_float_copies();
    if (count > 0) {
      wait_for_float_copies<1>();
      finish_facts(memory, Facts::stage(count - 1));
    }
    if (live) continue;
    if (thread_index() % 32 == 0) memory.flags[slot] = 0;
    return arrive(shared_address(&memory.facts_full[slot]));
  }
}

// One thread for each consumer: adds what it has staged to dq.
template <int D>
__device__ __forceinline__ void send_sums(const FusedParams& params, FusedMemory<D>& memory, int consumer) {
  for (int count = 0;; ++count) {
    wait(shared_address(&memory.sums_full[consumer]), count & 1);
    const int row = memory.place[consumer].row;
    if (row == SumPlace::end) return;
    if (row != SumPlace::nothing) {
      fence_shared_writes();  // other threads', which the barrier has made visible here
      add_tile(params.dq, row, D == 64 ? 0 : 2 * consumer, memory.place[consumer].head,
               shared_address(memory.sums[consumer]));
      finish_stores();
    }
    arrive(shared_address(&memory.sums_empty[consumer]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
