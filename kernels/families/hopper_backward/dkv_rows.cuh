// How a consumer warp writes its 16 rows of dk and dv: as tiles of 16 rows by TMA, or row by row where
// some of the 16 must not be touched. At head size 64 consumers store rounded rows themselves, unless
// they add: we think that TMA would read them only after the tile's last dq has been added, and the
// next tile would wait for that.
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/dq_accumulate.cuh"
#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/hopper/stage_rows.cuh"
#include "kernels/families/parts/output_rows.cuh"

namespace cplab::kernels::cuda::hopper {

// The first of the 16 keys of this warp.
__device__ __forceinline__ int first_key(const KeyTile& tile) {
  return tile.rows.begin + 16 * (thread_index() / 32 - 4);
}

// The rows of dk and dv of this warp's 16 keys.
template <class T, class Shape>
class DkvRows {
 public:
  static constexpr int D = Shape::head_size;
  using Params = typename Shape::Params;

  __device__ __forceinline__ DkvRows(const Params& params, FusedStorage<Shape>& memory, const KeyTile& tile)
      : params_(params),
        memory_(memory),
        tile_(tile),
        thread_(opaque(thread_index())),  // registers are short: nothing may be computed from it earlier
        first_(tile_.rows.begin + 16 * (thread_ / 32 - 4)),
        adds_(params.splits_query_heads || params.call.write_dk == Write::add) {}

  __device__ __forceinline__ const Params& params() const { return params_; }
  __device__ __forceinline__ const KeyTile& tile() const { return tile_; }
  __device__ __forceinline__ int warp() const { return thread_ / 32 - 4; }  // among consumers
  __device__ __forceinline__ int lane() const { return thread_ % 32; }
  __device__ __forceinline__ int first_key() const { return first_; }

  // dk or dv: accumulators, their factor, and where they go. `staging` is for this warp's 16 rows, and is
  // used as soon as the warp comes to write() or stage().
  struct Gradient {
    const Accumulators<1, D / 8>& acc;
    const CUtensorMap& map;
    const DeviceView& view;
    float factor;
    unsigned char* staging;
    bool single_groups;  // of the map
  };

  // Returns whether TMA may write all of the warp's 16 rows, because none of them must be left as it is.
  __device__ __forceinline__ bool is_whole() const {
    const int row = first_ + thread_ % 32 % 16;
    return __all_sync(all_lanes, row >= params_.call.k.rows || written(row)) != 0;
  }

  // Writes dk, or dv, or both. TMA may still be reading `staging` afterwards: lane 0 has to wait for that.
  template <class... Gradients>
  __device__ __forceinline__ void write(const Gradients&... gradients) const {
    if (leaves_as_tile()) {
      if constexpr (Shape::stores_rounded_rows)
        if (params_.dkv_write == DkvWrite::rounded_tiles) return (store_rounded(gradients), ...);
      stage_tiles(gradients...);
      send(gradients...);
    } else if (params_.splits_query_heads) {
      (add(gradients), ...);
    } else {
      (write_rows_one_by_one(gradients), ...);
    }
  }

  // Write in two steps, to be able to wait in between: stage() stages them, if they leave as tiles;
  // add_staged() adds what has been staged, or adds row by row.
  template <class... Gradients>
  __device__ __forceinline__ void stage(const Gradients&... gradients) const {
    if (leaves_as_tile()) (stage_tiles(gradients), ...);
  }
  template <class... Gradients>
  __device__ __forceinline__ void add_staged(const Gradients&... gradients) const {
    if (leaves_as_tile()) {
      send(gradients...);
    } else {
      (add(gradients), ...);
      __syncwarp();  // lane 0 says of all lanes that they have added
    }
  }

 private:
  __device__ __forceinline__ bool written(int row) const {
    return row < tile_.rows.end && (!adds_ || memory_.live[row - tile_.rows.begin] != 0);
  }

  // Returns whether the rows are written as 16 whole ones: by TMA, or by store_rounded().
  __device__ __forceinline__ bool leaves_as_tile() const {
    return !Shape::adds_tiles && params_.dkv_write != DkvWrite::row_by_row && is_whole();
  }
  template <class... Gradients>
  __device__ __forceinline__ void stage_tiles(const Gradients&... gradients) const {
    if (!Shape::stores_rounded_rows && params_.dkv_write == DkvWrite::rounded_tiles)
      (stage_rounded_of_16_rows<T>(gradients.staging, gradients.acc[0], gradients.factor), ...);
    else
      (stage_fp32_of_16_rows<0, D / 8>(gradients.staging, gradients.acc[0], gradients.factor), ...);
    fence_view_async_shared();
    __syncwarp();
  }
  __device__ __forceinline__ void store_rounded(const Gradient& gradient) const {
    store_rounded_16_rows<T>(gradient.staging, gradient.acc[0], gradient.factor, gradient.view, tile_.kv_head,
                             first_, params_.call.k.rows);
  }
  template <class... Gradients>
  __device__ __forceinline__ void send(const Gradients&... gradients) const {
    if (thread_ % 32 == 0 && first_ < params_.call.k.rows) (send_one(gradients), ...);
  }
  __device__ __forceinline__ void send_one(const Gradient& gradient) const {
    // 16 rows of a column group are 2048 bytes: 32 columns of sums, which are what is added, or 64 rounded.
    const bool sums = adds_ || params_.dkv_write == DkvWrite::fp32_tiles;
    const auto send_group = [&](int n) {
      const std::uint32_t from = shared_address(gradient.staging + n * 2048);
      if (adds_)
        tma_reduce_add(gradient.map, first_, 0, tile_.kv_head, from, 32 * n);
      else
        tma_store_once(gradient.map, first_, tile_.kv_head, from, (sums ? 32 : 64) * n);
    };
    if (sums)
      by_column_groups<D / 32>(gradient.single_groups, send_group);
    else
      by_column_groups<D / 64>(gradient.single_groups, send_group);
  }
  __device__ __forceinline__ void add(const Gradient& gradient) const {
    float* rows[2] = {};
    const int first = first_ + thread_ % 32 / 4;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (written(first + 8 * half))
        rows[half] = row_of<float>(gradient.view, tile_.kv_head, first + 8 * half);
    add_rows(rows, gradient.acc[0], gradient.factor, gradient.view.width);
  }
  __device__ __forceinline__ void write_rows_one_by_one(const Gradient& gradient) const {
    RowUpdate updates[1][2];
    const int lane = thread_ % 32;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      updates[0][half] = {.write = written(first_ + 8 * half + lane / 4),
                          .factor = gradient.factor,
                          .old_factor = adds_ ? 1.0f : 0.0f};
    write_rows(gradient.acc, gradient.view, tile_.kv_head, first_, updates, lane, gradient.view.width);
    __syncwarp();  // all lanes have read `live`
  }

  const Params& params_;
  FusedStorage<Shape>& memory_;
  const KeyTile& tile_;
  int thread_, first_;
  bool adds_;
};

}  // namespace cplab::kernels::cuda::hopper
