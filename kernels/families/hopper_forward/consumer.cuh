// A consumer warpgroup of the forward kernel: 64 query rows of every tile that its thread block takes. P V of
// block n - 1 is computed beneath the softmax of block n (FlashAttention 3, arXiv 2407.08608).
//
// A warpgroup skips blocks of keys in which its own rows have no live pair; in a tile of fewer rows whole
// warpgroups have none.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/families/hopper_forward/epilogue.cuh"
#include "kernels/families/hopper_forward/mainloop.cuh"
#include "kernels/families/hopper_forward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"

namespace cplab::kernels::cuda::hopper {

// One consumer warpgroup, in all tiles of the thread block. If ping_pong, it issues products
// alternately with the others.
template <class T, int D, int W, bool ping_pong, bool changes>
class ForwardConsumer {
 public:
  using Shape = ForwardShape<D, W>;
  using KPlace = PipelinePlace<Shape::k_stages>;
  using VPlace = PipelinePlace<Shape::v_stages>;
  using Tiles = PipelineIndex<Shape::q_stages>;

  __device__ __forceinline__ ForwardConsumer(const ForwardParamsOf<changes>& params,
                                             ForwardStorage<D, W>& memory, int warpgroup)
      : params_(params), memory_(memory), warpgroup_(warpgroup), mainloop_(memory, warpgroup, params) {}

  __device__ __forceinline__ void run() {
    if (warpgroup_ == Shape::consumers - 1) warp_scheduler_barrier_arrive();  // the first warpgroup begins
#pragma unroll 1
    for (;; ++tiles_) {
      const int buffer = Tiles::stage(tiles_);
      wait(shared_address(&memory_.q_full[buffer]), Tiles::parity(tiles_));
      const QueryTile tile = read_tile(buffer);
      if (tile.state != TileState::live) release_q();
      if (tile.state == TileState::none) return;
      const int warp = thread_index() / 32 - 4;
      mainloop_.start(tile.begin + 16 * warp, tile.head);
      if (tile.state == TileState::live)
        run_mainloop(shared_address(memory_.q[buffer][warpgroup_]), (tile.first >> warpgroup_ & 1) != 0);
      if (tile.begin + 64 * warpgroup_ < tile.end)
        epilogue(tile, tile.begin + 16 * warp, memory_.q[buffer][warpgroup_]);
      if constexpr (Shape::q_stages == 1) {
        __syncwarp();
        return_q(buffer);
      }
    }
  }

 private:
  static __device__ __forceinline__ int lane() {
    return thread_index() % 32;
  }

  // Read by lane 0, which later says that the tile's buffers are free: racecheck takes no lane's word for
  // others.
  __device__ __forceinline__ QueryTile read_tile(int buffer) const {
    constexpr int words = sizeof(QueryTile) / sizeof(int);
    static_assert(words * sizeof(int) == sizeof(QueryTile));
    int read[words] = {};
#pragma unroll
    for (int n = 0; n < words; ++n) {
      if (lane() == 0) read[n] = reinterpret_cast<const int*>(&memory_.tile[buffer])[n];
      read[n] = __shfl_sync(all_lanes, read[n], 0);
    }
    QueryTile tile;
    memcpy(&tile, read, sizeof(tile));
    return tile;
  }

  // Works on a tile. `live` says that these rows have live pairs in its first block. Blocks without
  // any are skipped, which does not break the ping-pong.
  __device__ __forceinline__ void run_mainloop(std::uint32_t queries, bool live) {
    bool first = true;
#pragma unroll 1
    for (;;) {
      if (live || Shape::consumers == 1)  // a single warpgroup has live pairs in every block
        run_live_blocks(queries, first);
      else
        skip_block(first);
      if (Shape::consumers == 1 || mainloop_.last()) return;
      first = false;
      live = mainloop_.next_is_live();
    }
  }

  // Works on a run of blocks in which these rows have live pairs.
  __device__ __forceinline__ void run_live_blocks(std::uint32_t queries, bool first_of_tile) {
    const TileDescriptor<Shape::q_half_bytes> q(queries);
    if constexpr (Shape::softmax_before_pv_wait) mainloop_.wait_k(k_);
    bool first = true;
#pragma unroll 1
    do {
      if constexpr (!Shape::softmax_before_pv_wait) mainloop_.wait_k(k_);
      warp_scheduler_barrier_sync();
      mainloop_.issue_qk(k_, q);
      // Zeroing rows of V takes long: let the other warpgroups go first.
      const bool zeroes_v = !first && !mainloop_.v_is_full();
      if (zeroes_v) warp_scheduler_barrier_arrive();
      if (first) {
        if (first_of_tile) release_q();
        warpgroup_arrive();
        warpgroup_commit_batch();  // an empty batch: warpgroup_wait counts batches
      } else {
        mainloop_.issue_pv(v_);
        warpgroup_commit_batch();
      }
      if (!zeroes_v) warp_scheduler_barrier_arrive();
      warpgroup_wait<1>();
      mainloop_.softmax_step(k_, Tiles::stage(tiles_));
      if constexpr (Shape::softmax_before_pv_wait) {
        // The exponentials must run before the wait for P V, beneath which they are to be hidden, but ptxas
        // would move them behind it. It moves nothing across a branch, and waiting for the next K, which has
        // long arrived, is one.
        mainloop_.fence_p();
        if (mainloop_.next_is_live()) mainloop_.wait_k(KPlace::after(k_));
      }
      warpgroup_wait<0>();
      if (!first) release_v();
      mainloop_.rescale_out();
      mainloop_.pack_p();
      first = false;
      k_ = KPlace::after(k_);
    } while (mainloop_.next_is_live());
    mainloop_.issue_pv(v_);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    release_v();
  }

  __device__ __forceinline__ void release_v() {
    mainloop_.release_v(v_);
    v_ = VPlace::after(v_);
  }

  __device__ __forceinline__ void skip_block(bool first_of_tile) {
    mainloop_.wait_k(k_);
    mainloop_.read_info(k_);
    warp_scheduler_barrier_sync();
    warp_scheduler_barrier_arrive();
    if (first_of_tile) release_q();
    mainloop_.skip_block(k_, v_);
    k_ = KPlace::after(k_);
    v_ = VPlace::after(v_);
  }

  __device__ __forceinline__ void epilogue(const QueryTile& tile, int first_row, unsigned char* staged) {
    raise_max_logit<1>(params_.call, tile.head, first_row, tile.end, thread_index() % 32,
                       [&](int, int half) { return mainloop_.softmax.maximum[half]; });
    const int row = tile.begin + 64 * warpgroup_;
    const int distance =
        __shfl_sync(all_lanes, lane() == 0 ? memory_.out_distance[Tiles::stage(tiles_)] : 0, 0);
    // A TMA store writes 64 rows at once: not where some of them belong to the next tile, or to nobody.
    const bool tiles = params_.out_write != OutWrite::row_by_row &&
                       (row + 64 <= tile.end || tile.end + distance == params_.call.out.rows);
    const bool merges = tiles && params_.out_write == OutWrite::merged_tiles;
    if (merges) load_old_out(row + distance, tile.head, staged);
    const RowUpdate update =
        finish_row(params_.call, mainloop_.softmax, params_.scale_log2, tile.head, first_row, tile.end);
    // Q of the warpgroup is no longer needed, and out is staged in its place.
    if (!merges) named_barrier_sync(2 + warpgroup_, warpgroup_threads);
    if (merges) {
      wait(shared_address(&memory_.old_out_full[warpgroup_]), merged_++ & 1);
      merge_out_tile<T>(staged, mainloop_.out[0], update);
    } else if (tiles) {
      stage_out_tile<T>(staged, mainloop_.out[0], update);
    } else {
      write_out_rows<Shape::value_size>(staged + thread_index() / 32 % 4 * (Shape::q_bytes / 4),
                                        mainloop_.out[0], params_.call.out, tile.head, first_row, update);
    }
    fence_view_async_shared();
    named_barrier_sync(2 + warpgroup_, warpgroup_threads);
    if (tiles && thread_index() % warpgroup_threads == 0)
      by_column_groups<Shape::value_size / 64>(params_.single_value_groups, [&](int n) {
        tma_store(params_.out, row + distance, tile.head, shared_address(staged + n * Shape::q_half_bytes), 0,
                  64 * n);
      });
  }

  // Starts to load the rows that are merged with, beside the end of the softmax, to where Q was: no warp of
  // the warpgroup needs that any more.
  __device__ __forceinline__ void load_old_out(int row, int head, unsigned char* staged) {
    named_barrier_sync(2 + warpgroup_, warpgroup_threads);
    if (thread_index() % warpgroup_threads != 0) return;
    const std::uint32_t full = shared_address(&memory_.old_out_full[warpgroup_]);
    arrive_and_expect_tx(full, 64 * Shape::value_size * 2);
    by_column_groups<Shape::value_size / 64>(params_.single_value_groups, [&](int n) {
      tma_load(shared_address(staged + n * Shape::q_half_bytes), params_.out, row, head, full, 0, 64 * n);
    });
  }

  // Ping-pong: warpgroups issue their products one after the other, so that the softmax of one runs while the
  // products of the next are computed. Otherwise all would wait for the tensor cores together, and then for
  // the MUFU. Both functions are named as in FlashAttention 3.
  __device__ __forceinline__ void warp_scheduler_barrier_sync() {
    if constexpr (ping_pong) named_barrier_sync(5 + warpgroup_, 2 * warpgroup_threads);
  }
  __device__ __forceinline__ void warp_scheduler_barrier_arrive() {
    if constexpr (ping_pong)
      named_barrier_arrive(5 + (warpgroup_ + 1) % Shape::consumers, 2 * warpgroup_threads);
  }

  // The tile before had its Q, and then its out, in another buffer. Once TMA has read that, the producer may
  // load the next Q into it; by then this tile's first product is running, so that the wait costs nothing. If
  // there is one buffer, a tile gives it back at its end.
  __device__ __forceinline__ void release_q() {
    if constexpr (Shape::q_stages == 1) return;
    if (tiles_ > 0) return_q(Tiles::stage(tiles_ - 1));
    __syncwarp();  // wgmma needs converged warps
  }
  __device__ __forceinline__ void return_q(int buffer) {
    if (lane() != 0) return;
    tma_store_wait();
    arrive(shared_address(&memory_.q_empty[buffer]));
  }

  const ForwardParamsOf<changes>& params_;
  ForwardStorage<D, W>& memory_;
  int warpgroup_;
  ForwardMainloop<T, D, W, changes> mainloop_;
  int tiles_ = 0;      // tiles finished before this one
  int k_ = 0, v_ = 0;  // places of this block's K and of the next V to be multiplied
  int merged_ = 0;     // tiles loaded by load_old_out() before this one
};

}  // namespace cplab::kernels::cuda::hopper
