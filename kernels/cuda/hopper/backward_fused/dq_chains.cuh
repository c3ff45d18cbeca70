// dq by chains: a thread block takes all tiles of keys that add to the same rows of dq, a sequence of a head,
// one after the other. So nobody sets dq to 0 before, because the first piece of a block of queries, a cell,
// is stored and not added; and nobody rounds it afterwards, because the thread block knows which piece is a
// cell's last. One thread stores and adds, and waits until memory has been written. A warp that has nothing
// else to do loads complete cells, which are still in the L2 cache, rounds them and stores what comes out.
//
// All cells are whole (kernels/work/chains.hpp): no row beyond a cell is written, and rows of a cell that
// have no gradient get 0.
//
// For head size 64 alone: there a part of dq is 64 rows with all of their columns.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/producer.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/parts/output_rows.cuh"
#include "kernels/cuda/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// One thread: stores or adds the dq that both consumers have staged for a block.
template <class Shape>
__device__ __forceinline__ void run_dq_store_of_chains(const FusedParams& params,
                                                       FusedStorage<Shape>& memory) {
  static_assert(Shape::head_size == 64 && Shape::shares_queries, "a part of dq has all columns of its rows");
  using InfoStages = PipelineIndex<Shape::info_stages>;
  auto& chains = memory.chains;
  using Slots = PipelineIndex<DqChains<Shape, true>::slots>;
  int cells = 0;
  const auto publish = [&](const DqCell& cell) {
    const int slot = Slots::stage(cells);
    wait(shared_address(&chains.cell_empty[slot]), Slots::parity(cells) ^ 1);
    chains.cell[slot] = cell;
    arrive(shared_address(&chains.cell_full[slot]));
    ++cells;
  };
  for (int n = 0; n < most_chain_cells; ++n) chains.added[n] = 0;
  for (int count = 0;; ++count) {
    const int info = InfoStages::stage(count);
    wait(shared_address(&memory.info_full[info]), InfoStages::parity(count));
    if ((memory.flags[info] & block_live) == 0) return publish({0, -1});
    const int tile = memory.tile_of[info];
    const int begin = memory.found[info].begin, head = memory.found[info].head;
    const DqOwner& owner = chains.owner_of_tile[tile];
    const int cell = (begin - owner.row_begin) / Shape::queries;
    unsigned char& added = chains.added[(head - memory.tile[tile].first_head) * owner.cells + cell];
    const bool first = added == 0, last = added + 1 == owner.pieces[cell];
    added = last ? 0 : added + 1;
#pragma unroll
    for (int part = 0; part < Shape::dq_parts; ++part) {
      const int row = begin + Shape::dq_rows * part;
      const std::uint32_t from = shared_address(memory.dq_staging[part]);
      wait(shared_address(&memory.dq_full[part]), count & 1);
      fence_view_async_shared();  // for the writes of other threads, made visible by the barrier
      if (first)
        tma_store(params.dq, row, head, from);
      else
        tma_reduce_add(params.dq, row, 0, head, from);
    }
    tma_store_wait_until_written();
    for (int part = 0; part < Shape::dq_parts; ++part) arrive(shared_address(&memory.dq_empty[part]));
    if (last) publish({begin, head});
  }
}

// Eight columns of four rows at once: a piece of a cell, as TMA has loaded it, rounded to T.
template <class T>
__device__ __forceinline__ void store_rounded(const unsigned char* piece, const DeviceView& into, int head,
                                              int row) {
  const int lane = thread_index() % 32, eight = lane % 8, half = eight / 4;
#pragma unroll
  for (int four = 0; four < rounding_rows; four += 4) {
    const int at = four + lane / 8;
    // Of two chunks of four columns, lanes of the second half read the other one first, so that eight lanes
    // do not meet in the same banks.
    const auto chunk = [&](int which) {
      const int place = (2 * (eight % 4) + which) ^ (at & 7);
      return *reinterpret_cast<const float4*>(piece + half * rounding_rows * 128 + at * 128 + place * 16);
    };
    const float4 now = chunk(half), then = chunk(1 - half);
    const float4 low = half == 0 ? now : then, high = half == 0 ? then : now;
    *reinterpret_cast<uint4*>(row_of<T>(into, head, row + at) + 8 * eight) =
        make_uint4(Element<T>::pack(low.x, low.y), Element<T>::pack(low.z, low.w),
                   Element<T>::pack(high.x, high.y), Element<T>::pack(high.z, high.w));
  }
}

// A warp: rounds the cells that are complete. Two pieces of a cell are on their way at once.
template <class T, class Shape>
__device__ __forceinline__ void round_dq_of_chains(const FusedParams& params, FusedStorage<Shape>& memory) {
  auto& chains = memory.chains;
  using Slots = PipelineIndex<DqChains<Shape, true>::slots>;
  using Buffers = PipelineIndex<2>;
  static_assert(rounding_pieces * rounding_rows == Shape::queries, "a piece has all columns of its rows");
  static_assert(rounding_bytes == rounding_rows * Shape::head_size * 4);
  for (int cells = 0;; ++cells) {
    const int slot = Slots::stage(cells);
    wait(shared_address(&chains.cell_full[slot]), Slots::parity(cells));
    const DqCell cell = chains.cell[slot];
    arrive(shared_address(&chains.cell_empty[slot]));
    if (cell.head < 0) return;
    for (int ahead = 0; ahead < rounding_pieces + 2; ++ahead) {
      const int buffer = Buffers::stage(ahead), piece = ahead - 2;
      if (piece >= 0) {
        const int number = rounding_pieces * cells + piece;
        wait(shared_address(&chains.piece_full[buffer]), Buffers::parity(number));
        store_rounded<T>(memory.rounding.piece[buffer], params.call.rounded_dq, cell.head,
                         cell.begin + rounding_rows * piece);
        arrive(shared_address(&chains.piece_empty[buffer]));
      }
      if (ahead < rounding_pieces && thread_index() % 32 == 0) {
        const std::uint32_t full = shared_address(&chains.piece_full[buffer]);
        wait(shared_address(&chains.piece_empty[buffer]),
             Buffers::parity(rounding_pieces * cells + ahead) ^ 1);
        fence_view_async_global();  // what the thread that adds has seen
        arrive_and_expect_tx(full, rounding_bytes);
        tma_load(shared_address(memory.rounding.piece[buffer]), params.dq_pieces,
                 cell.begin + rounding_rows * ahead, cell.head, full);
      }
    }
  }
}

}  // namespace cplab::kernels::cuda::hopper
