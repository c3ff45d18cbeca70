// Forward attention for Hopper: one warpgroup brings tiles by the copy engine, the others each own 64 query
// rows and multiply by wgmma. While a block's softmax runs, the product of this block's Q K^T and of the last
// one's P V run in the tensor cores (FlashAttention 3, arXiv 2407.08608).
//
// A warpgroup passes blocks of keys in which its own rows have no live pair; a tile of fewer rows leaves
// whole warpgroups without any.
//
// The grid is persistent: a block takes tile after tile, and the end of one overlaps with loads of the next.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/attend_finish.cuh"
#include "kernels/cuda/hopper/attend_memory.cuh"
#include "kernels/cuda/hopper/attend_producer.cuh"
#include "kernels/cuda/hopper/attend_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// The rows of one consumer warpgroup, in all tiles of the block.
template <class T, int D, int W>
class HopperAttendConsumer {
 public:
  using Shape = HopperAttendShape<D, W>;
  using Tiles = Ring<Shape::tiles>;

  __device__ __forceinline__ HopperAttendConsumer(const HopperAttendParams& params,
                                                  HopperAttendMemory<D, W>& memory, int warpgroup)
      : params_(params),
        memory_(memory),
        warpgroup_(warpgroup),
        rows_(memory, warpgroup, params.scale_log2) {}

  __device__ __forceinline__ void run() {
    if (warpgroup_ == Shape::consumers - 1) pass_turn();  // to the first
#pragma unroll 1
    for (;; ++tiles_) {
      const int buffer = Tiles::stage(tiles_);
      wait(shared_address(&memory_.q_full[buffer]), Tiles::parity(tiles_));
      const AttendTile tile = memory_.tile[buffer];
      if (tile.state != TileState::live) release_queries();
      if (tile.state == TileState::none) return;
      const int warp = thread_index() / 32 - 4;
      rows_.start(tile.begin + 16 * warp);
      if (tile.state == TileState::live)
        walk_keys(shared_address(memory_.q[buffer][warpgroup_]), (tile.first >> warpgroup_ & 1) != 0);
      if (tile.begin + 64 * warpgroup_ < tile.end)
        finish(tile, tile.begin + 16 * warp, memory_.q[buffer][warpgroup_]);
      else
        sync_threads_of(2 + warpgroup_,
                        warpgroup_threads);  // all have read the tile, whose place will be free
    }
  }

 private:
  // live: the first block has live pairs with these rows. Those without are passed in step with the other
  // warpgroups.
  __device__ __forceinline__ void walk_keys(std::uint32_t queries, bool live) {
    bool first = true;
#pragma unroll 1
    for (;;) {
      if (live || Shape::consumers == 1)  // a tile's only warpgroup has live pairs in all its blocks
        walk_live_keys(queries, first);
      else
        pass_block(first);
      if (Shape::consumers == 1 || rows_.last()) return;
      first = false;
      live = rows_.goes_on();
    }
  }

  // To the end of a run of blocks with live pairs.
  __device__ __forceinline__ void walk_live_keys(std::uint32_t queries, bool first_of_tile) {
    const TileDescriptor<Shape::q_half> q(queries);
    if constexpr (Shape::weights_first) rows_.wait_for_keys(count_);
    bool first = true;
#pragma unroll 1
    do {
      if constexpr (!Shape::weights_first) rows_.wait_for_keys(count_);
      wait_for_turn();
      rows_.queue_scores(count_, q);
      const bool clears = !first && !rows_.values_are_whole();  // the others need not wait for that
      if (clears) pass_turn();
      if (first) {
        if (first_of_tile) release_queries();
        fence_products();
        commit_products();  // of nothing: the wait counts batches
      } else {
        rows_.queue_values(count_ - 1);
        commit_products();
      }
      if (!clears) pass_turn();
      wait_for_products<1>();
      rows_.weigh_scores(count_);
      if constexpr (Shape::weights_first) {
        // The exponentials stay before the wait for P V, under which they are to run: nothing moves across a
        // branch. And the next keys, long there, are not waited for when they are due.
        rows_.pin_weights();
        if (rows_.goes_on()) rows_.wait_for_keys(count_ + 1);
      }
      wait_for_products<0>();
      if (!first) rows_.release_values(count_ - 1);
      rows_.shrink_out();
      rows_.pack_weights();
      first = false;
      ++count_;
    } while (rows_.goes_on());
    rows_.queue_values(count_ - 1);
    commit_products();
    wait_for_products<0>();
    rows_.release_values(count_ - 1);
  }

  __device__ __forceinline__ void pass_block(bool first_of_tile) {
    rows_.wait_for_keys(count_);
    rows_.read_facts(count_);
    wait_for_turn();  // all warps have read them
    pass_turn();
    if (first_of_tile) release_queries();
    rows_.pass_block(count_);
    ++count_;
  }

  __device__ __forceinline__ void finish(const AttendTile& tile, int first_row, unsigned char* staged) {
    const RowUpdate update =
        finish_row(params_.call, rows_.softmax, params_.scale_log2, tile.head, first_row, tile.end);
    const int row = tile.begin + 64 * warpgroup_;
    // 64 rows at once, unless the next tile's are among them.
    const bool stores = params_.stores_tiles && (row + 64 <= tile.end || tile.end == params_.call.out.rows);
    // The warpgroup's own queries are no longer needed: out goes there.
    sync_threads_of(2 + warpgroup_, warpgroup_threads);
    if (stores)
      stage_rows<T>(staged, rows_.out[0], update);
    else
      write_by_rows<D>(staged + thread_index() / 32 % 4 * (Shape::q_bytes / 4), rows_.out[0],
                       params_.call.out, tile.head, first_row, update);
    fence_shared_writes();
    sync_threads_of(2 + warpgroup_, warpgroup_threads);
    if (stores && thread_index() % warpgroup_threads == 0)
      store_tile(params_.out, row, tile.head, shared_address(staged));
  }

  // Warpgroups queue their products one after the other: the scores of the first are there, and its softmax
  // begins, while those of the next are computed. At once, all would wait for the tensor cores together, and
  // then for the unit for special functions (FlashAttention 3 calls it ping-pong).
  __device__ __forceinline__ void wait_for_turn() {
    if constexpr (Shape::takes_turns) sync_threads_of(5 + warpgroup_, 2 * warpgroup_threads);
  }
  __device__ __forceinline__ void pass_turn() {
    if constexpr (Shape::takes_turns)
      arrive_threads_of(5 + (warpgroup_ + 1) % Shape::consumers, 2 * warpgroup_threads);
  }

  // Where the tile before had its queries and then its out: once that is read, the producer may have it. That
  // is waited for when this tile's first product runs.
  __device__ __forceinline__ void release_queries() {
    if (tiles_ > 0 && thread_index() % warpgroup_threads == 0) {
      finish_stores();
      arrive(shared_address(&memory_.q_empty[Tiles::stage(tiles_ - 1)]));
    }
    __syncwarp();  // products are for whole warps
  }

  const HopperAttendParams& params_;
  HopperAttendMemory<D, W>& memory_;
  int warpgroup_;
  HopperRows<T, D, W> rows_;
  int tiles_ = 0;  // finished
  int count_ = 0;  // blocks whose products were queued, or that were passed
};

template <class T, int D, int W>
__global__ void __launch_bounds__(HopperAttendShape<D, W>::threads, 1)
    attend_hopper_kernel(const __grid_constant__ HopperAttendParams params) {
  using Shape = HopperAttendShape<D, W>;
  extern __shared__ unsigned char attend_hopper_shared[];
  const std::uint32_t base = shared_address(attend_hopper_shared);
  auto& memory =
      *reinterpret_cast<HopperAttendMemory<D, W>*>(attend_hopper_shared + (1024 - base % 1024) % 1024);
  HopperAttendProducer<D, W> producer(params, memory);
  if (threadIdx.x == 0) {
    producer.start();
    memory.init_barriers();
  }
  wait_for_earlier_kernels();
  __syncthreads();
  const int warpgroup = warpgroup_index();
  if (warpgroup == 0) {
    if constexpr (W > 1) give_registers<Shape::producer_registers>();
    if (threadIdx.x == 0) producer.run();
  } else {
    if constexpr (W > 1) take_registers<Shape::consumer_registers>();
    HopperAttendConsumer<T, D, W>(params, memory, warpgroup - 1).run();
  }
}

}  // namespace cplab::kernels::cuda::hopper
