// What the gradient kernels for Hopper (attend_backward_hopper.cuh) keep in shared memory, and the threads
// that bring it there.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/blocks.cuh"
#include "kernels/cuda/hopper/instructions.cuh"
#include "kernels/cuda/hopper/tile_order.cuh"
#include "kernels/cuda/mma_rows.cuh"

namespace cplab::kernels::cuda::hopper {

struct HopperBackwardParams {
  AttendBackwardParams call;
  CUtensorMap q, k, v, dout;
  TileOrder q_order, k_order;  // of dq's kernel, and of dk's and dv's
  float scale_log2 = 0;
};

// dq, or dk and dv.
enum class Part { dq, dk_dv };

template <Part part>
constexpr Owner owner_of = part == Part::dq ? Owner::queries : Owner::keys;

template <int D, Part part>
struct GradientShape {
  static constexpr int consumers = 2;  // warpgroups
  static constexpr int threads = warpgroup_threads * (1 + consumers);
  static constexpr int rows = 64 * consumers;
  static constexpr int columns = 64;
  static constexpr int stages = D == 64 ? 4 : 3;
  static constexpr int producer_registers = 24, consumer_registers = 240;
  // Of 64 owned rows and of their first 64 columns; likewise of `columns` rows of X and Y.
  static constexpr int owned_bytes = 64 * D * 2, owned_half = 64 * 128;
  static constexpr int block_bytes = columns * D * 2, block_half = columns * 128;
};

template <int D, Part part>
struct alignas(1024) GradientMemory {
  using Shape = GradientShape<D, part>;
  unsigned char a[Shape::consumers][Shape::owned_bytes], b[Shape::consumers][Shape::owned_bytes];
  unsigned char x[Shape::stages][Shape::block_bytes], y[Shape::stages][Shape::block_bytes];
  // Owner keys: of the block's queries, lse in units of log2, +inf where the row has no gradient.
  float lse[Shape::stages][Shape::columns], delta[Shape::stages][Shape::columns];
  Block bounds[Shape::stages];
  WorkTile tile;  // of the thread block, and its head: registers are short
  int head;
  int unclean[Shape::stages];  // X and Y have rows that nobody promises anything of
  std::uint64_t owned_full, full[Shape::stages], empty[Shape::stages];
  std::uint64_t walked[Shape::stages];  // owner keys: the bounds are there
};

// lse in units of log2. A row whose lse is -inf has no gradient: with +inf its P is 0.
__device__ __forceinline__ float lse_log2(float lse) {
  return lse == -infinity() ? infinity() : lse * log2_e;
}

// --- the producers ---------------------------------------------------------------------------------------

// One thread: walks the segments and brings tiles.
template <int D, Part part>
__device__ __forceinline__ void produce_blocks(const HopperBackwardParams& params,
                                               GradientMemory<D, part>& memory) {
  using Shape = GradientShape<D, part>;
  using Stages = Ring<Shape::stages>;
  constexpr bool queries = part == Part::dq;
  const int group = params.call.q.heads / params.call.k.heads;
  const DeviceSegment* const segments = queries ? params.call.by_q.segments : params.call.by_k.segments;
  const int first_head = queries ? memory.head / group : memory.head * group;
  const int stop_head = queries ? first_head + 1 : first_head + group;
  Block block = first_block<owner_of<part>>(first_head, stop_head, memory.tile, segments);
  if (block.live()) {
    const std::uint32_t full = shared_address(&memory.owned_full);
    arrive_expecting(full, 2 * Shape::consumers * Shape::owned_bytes);
    for (int n = 0; n < Shape::consumers; ++n) {
      const int row = memory.tile.begin + 64 * n;
      copy_tile(shared_address(memory.a[n]), queries ? params.q : params.k, row, memory.head, full);
      copy_tile(shared_address(memory.b[n]), queries ? params.dout : params.v, row, memory.head, full);
    }
  }
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    const std::uint32_t full = shared_address(&memory.full[stage]);
    wait(shared_address(&memory.empty[stage]), Stages::parity(count) ^ 1);
    memory.bounds[stage] = block;
    if constexpr (queries) {
      memory.unclean[stage] = block.end - block.begin < Shape::columns;
    } else {
      arrive(shared_address(&memory.walked[stage]));
    }
    if (!block.live()) return arrive(full);
    arrive_expecting(full, 2 * Shape::block_bytes);
    copy_tile(shared_address(memory.x[stage]), queries ? params.k : params.q, block.begin, block.head, full);
    copy_tile(shared_address(memory.y[stage]), queries ? params.v : params.dout, block.begin, block.head,
              full);
    block = next_block<owner_of<part>, Shape::columns>(block, stop_head, memory.tile, segments);
  }
}

// The copies of lse and delta of a block of queries are there: they become what consumers need.
template <int D, Part part>
__device__ __forceinline__ void finish_rows_of(GradientMemory<D, part>& memory, int stage) {
  using Shape = GradientShape<D, part>;
  const Block& block = memory.bounds[stage];
  bool unclean = false;
#pragma unroll
  for (int column = thread_index() % 32; column < Shape::columns; column += 32) {
    const float lse = memory.lse[stage][column];
    const bool empty = block.begin + column >= block.end || lse == -infinity();
    memory.lse[stage][column] = empty ? infinity() : lse_log2(lse);
    if (empty) memory.delta[stage][column] = 0;
    unclean |= empty;
  }
  unclean = __any_sync(all_lanes, unclean) != 0;
  if (thread_index() % 32 == 0) memory.unclean[stage] = unclean;
  arrive(shared_address(&memory.full[stage]));  // each lane for what it wrote
}

// One warp: brings lse and delta of the blocks of queries that the thread above has found, a block's copies
// under way while the one before is finished: their latency is longer than a block's turn.
template <int D, Part part>
__device__ __forceinline__ void produce_rows(const AttendBackwardParams& params,
                                             GradientMemory<D, part>& memory) {
  using Shape = GradientShape<D, part>;
  using Stages = Ring<Shape::stages>;
  for (int count = 0;; ++count) {
    const int stage = Stages::stage(count);
    wait(shared_address(&memory.walked[stage]), Stages::parity(count));
    const Block& block = memory.bounds[stage];
    const bool live = block.live();
    if (live) {
#pragma unroll
      for (int column = thread_index() % 32; column < Shape::columns; column += 32) {
        const int row = block.begin + column;
        const bool inside = row < block.end;
        const int read = inside ? row : block.begin;
        copy_float(shared_address(&memory.lse[stage][column]),
                   row_of<const float>(params.lse, block.head, read), inside);
        copy_float(shared_address(&memory.delta[stage][column]),
                   row_of<const float>(params.delta, block.head, read), inside);
      }
    }
    commit_float_copies();
    if (count > 0) {
      wait_for_float_copies<1>();
      finish_rows_of(memory, Stages::stage(count - 1));
    }
    if (!live) return arrive(shared_address(&memory.full[stage]));
  }
}

}  // namespace cplab::kernels::cuda::hopper
