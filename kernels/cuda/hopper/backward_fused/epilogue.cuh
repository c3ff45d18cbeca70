// The epilogue of the fused backward kernel: dk and dv are stored or added as tiles of 16 rows by TMA, or row
// by row where some of the 16 must not be touched. Rounded sums to be added to are loaded by TMA, beside the
// last product, and stored as tiles. At head size 64 consumers store rounded rows themselves, unless they
// add: TMA would read them only after the tile's last dq has been added, we think, and the next tile would
// wait.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/dq_accumulate.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/hopper/parts/stage_rows.cuh"
#include "kernels/cuda/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// The first key of this warp.
__device__ __forceinline__ int first_key(const KeyTile& tile) {
  return tile.rows.begin + 16 * (thread_index() / 32 - 4);
}

// dk and dv of this warp's 16 keys.
template <class Shape>
class DkvEpilogue {
 public:
  static constexpr int D = Shape::head_size;

  __device__ __forceinline__ DkvEpilogue(const FusedParams& params, FusedStorage<Shape>& memory,
                                         const KeyTile& tile)
      : params_(params),
        tile_(tile),
        thread_(opaque(thread_index())),  // registers are short: nothing may be computed earlier
        first_(tile.rows.begin + 16 * (thread_ / 32 - 4)),
        adds_(params.splits_query_heads || params.call.write_dk == Write::add),
        live_(memory.live) {}

  // dk or dv: accumulators, their factor, and where they go. `staging`: of this warp's 16 rows; it is used as
  // soon as the warp comes to write().
  struct Gradient {
    const Accumulators<1, D / 8>& acc;
    const CUtensorMap& map;
    const DeviceView& view;
    float factor;
    unsigned char* staging;
  };

  // Whether none of the warp's 16 rows must be left as it is, so that TMA may write all of them.
  __device__ __forceinline__ bool is_whole() const {
    const int row = first_ + thread_ % 32 % 16;
    return __all_sync(all_lanes, row >= params_.call.k.rows || written(row)) != 0;
  }

  // DkvWrite::added_tiles, lane 0: starts to load what the warp's rows of dk and dv are added to, if they are
  // whole; a phase of `full` ends with it.
  __device__ __forceinline__ void load_old(std::uint32_t full, bool whole, const CUtensorMap& dk,
                                           unsigned char* dk_staging, const CUtensorMap& dv,
                                           unsigned char* dv_staging) const {
    if (!whole || first_ >= params_.call.k.rows) return arrive(full);
    arrive_and_expect_tx(full, 2 * 16 * D * 2);
    tma_load(shared_address(dv_staging), dv, first_, tile_.kv_head, full);
    tma_load(shared_address(dk_staging), dk, first_, tile_.kv_head, full);
  }
  // Adds to what has been loaded, and stores the sums. TMA may still be reading `staging` afterwards.
  template <class T>
  __device__ __forceinline__ void add_to_old(const CUtensorMap& map, unsigned char* staging,
                                             const Accumulators<1, D / 8>& acc, float factor) const {
    stage_rounded_of_16_rows<T, true>(staging, acc[0], factor);
    fence_view_async_shared();
    __syncwarp();
    if (thread_ % 32 == 0 && first_ < params_.call.k.rows)
      tma_store_once(map, first_, tile_.kv_head, shared_address(staging));
  }

  // Whether add_in_turn() takes the place of write().
  __device__ __forceinline__ bool in_turn() const {
    return Shape::ordered && !Shape::adds_tiles && params_.splits_query_heads;
  }

  // Writes dk, or dv, or both; for added_tiles where rows are not whole. TMA may still be reading `staging`
  // afterwards: lane 0 has to wait for that.
  template <class T, class... Gradients>
  __device__ __forceinline__ void write(const Gradients&... gradients) const {
    if (leaves_as_tile()) {
      if constexpr (Shape::stores_rounded_rows)
        if (params_.dkv_write == DkvWrite::rounded_tiles) return (store_rounded<T>(gradients), ...);
      stage_tiles<T>(gradients...);
      send(gradients...);
    } else if (params_.splits_query_heads) {
      (add(gradients), ...);
    } else {
      (write_rows_one_by_one(gradients), ...);
    }
  }

  // The first of the two, where they are not staged together: written, or in turn staged.
  template <class T>
  __device__ __forceinline__ void write_or_stage(const Gradient& dv) const {
    if (!in_turn()) return write<T>(dv);
    if (leaves_as_tile()) stage_tiles<T>(dv);
  }

  // Adds dk and dv in turn with the other query heads of the key head, which have other thread blocks. A head
  // waits for the one before it (dq_turns.cuh) when nothing else is left to do: between its turn and the next
  // head's are two additions and a fence, and no other wait. place: of the tile in the work list. What was
  // staged has been read afterwards.
  template <class T>
  __device__ __forceinline__ void add_in_turn(int place, const Gradient& dv, const Gradient& dk) const {
    if (leaves_as_tile()) {
      if constexpr (Shape::stages_together) stage_tiles<T>(dv);
      stage_tiles<T>(dk);
    }
    const FastDivmod& heads = params_.scheduler.of_kv_head;
    std::int32_t* const counter =
        params_.call.turns.dkv_counters +
        (std::int64_t{tile_.kv_head} * params_.call.by_k.live + place) * dkv_turns_of_tile +
        (thread_ / 32 - 4);
    if (thread_ % 32 == 0) {
      wait_for_count(counter, heads.remainder(tile_.first_head, tile_.kv_head));
      fence_view_async_global();
    }
    __syncwarp();
    if (leaves_as_tile()) {
      send(dv, dk);
    } else {
      add(dv);
      add(dk);
      __syncwarp();  // lane 0 passes the turn of all lanes
    }
    if (thread_ % 32 != 0) return;
    tma_store_wait_until_written();
    fence_device_memory();
    if (heads.quotient(tile_.first_head + 1) != tile_.kv_head)
      *counter = 0;  // the last of the heads: nobody waits for it any more
    else
      add_one(counter);
  }

 private:
  __device__ __forceinline__ bool written(int row) const {
    return row < tile_.rows.end && (!adds_ || live_[row - tile_.rows.begin] != 0);
  }

  // As 16 whole rows: by TMA, or rounded at head size 64 by store_rounded().
  __device__ __forceinline__ bool leaves_as_tile() const {
    return !Shape::adds_tiles && params_.dkv_write != DkvWrite::row_by_row && is_whole();
  }
  template <class T, class... Gradients>
  __device__ __forceinline__ void stage_tiles(const Gradients&... gradients) const {
    if (!Shape::stores_rounded_rows && params_.dkv_write == DkvWrite::rounded_tiles)
      (stage_rounded_of_16_rows<T>(gradients.staging, gradients.acc[0], gradients.factor), ...);
    else
      (stage_fp32_of_16_rows<0, D / 8>(gradients.staging, gradients.acc[0], gradients.factor), ...);
    fence_view_async_shared();
    __syncwarp();
  }
  template <class T>
  __device__ __forceinline__ void store_rounded(const Gradient& gradient) const {
    store_rounded_16_rows<T>(gradient.staging, gradient.acc[0], gradient.factor, gradient.view, tile_.kv_head,
                             first_, params_.call.k.rows);
  }
  template <class... Gradients>
  __device__ __forceinline__ void send(const Gradients&... gradients) const {
    if (thread_ % 32 == 0 && first_ < params_.call.k.rows) (send_one(gradients), ...);
  }
  __device__ __forceinline__ void send_one(const Gradient& gradient) const {
    if (adds_)
      tma_reduce_add(gradient.map, first_, 0, tile_.kv_head, shared_address(gradient.staging));
    else
      tma_store_once(gradient.map, first_, tile_.kv_head, shared_address(gradient.staging));
  }
  __device__ __forceinline__ void add(const Gradient& gradient) const {
    float* rows[2] = {};
    const int first = first_ + thread_ % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (written(first + 8 * half))
        rows[half] = row_of<float>(gradient.view, tile_.kv_head, first + 8 * half);
    add_rows(rows, gradient.acc[0], gradient.factor);
  }
  __device__ __forceinline__ void write_rows_one_by_one(const Gradient& gradient) const {
    RowUpdate updates[1][2];
    const int lane = thread_ % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      updates[0][half] = {.write = written(first_ + 8 * half + lane / 4),
                          .factor = gradient.factor,
                          .old_factor = adds_ ? 1.0f : 0.0f};
    write_rows(gradient.acc, gradient.view, tile_.kv_head, first_, updates, lane);
    __syncwarp();  // all lanes have read `live`
  }

  const FusedParams& params_;
  const KeyTile& tile_;
  int thread_, first_;
  bool adds_;
  const unsigned char* live_;
};

}  // namespace cplab::kernels::cuda::hopper
