// How dq comes into being, and the means by which it can leave a consumer: dS^T goes through shared memory to
// the product dS K, whose accumulators are staged for TMA to add to memory, or to store. Where some rows of a
// block must not be touched, these are staged as -0, or the other rows are added by vector atomics. Which of
// these means are used is for the way of summing dq to say (dq_sum_*.cuh).
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda::hopper {

// Stores dS^T of this warp's 16 keys x the block's queries, packed as wgmma's operand A, in the tile of all
// keys.
template <int steps, int group_bytes>
__device__ __forceinline__ void store_ds(unsigned char (*tile)[group_bytes],
                                         const std::uint32_t (&ds)[steps][4]) {
  const int lane = thread_index() % 32;
  // stmatrix: lane l gives the address of row l % 8 of matrix l / 8. Matrices 1 and 3 are 8 rows further
  // down, 2 and 3 are 8 queries further right.
  const int row = 16 * (thread_index() / 32 - 4) + lane / 8 % 2 * 8 + lane % 8;
  const int byte = row * 128 + ((lane / 16) << 4 ^ (row & 7) << 4);
#pragma unroll
  for (int step = 0; step < steps; ++step)
    stmatrix(shared_address(tile[step / 4]) + static_cast<std::uint32_t>(byte ^ (step % 4) << 5), ds[step]);
}

// Stores 64 x 64 accumulators of a warpgroup, those from `first` on, times a factor, in the layout that TMA
// reads. Half a warp stores at once, 32 bytes of each of four rows; odd rows store other columns first, so
// that the four rows do not meet in the same banks.
template <int n_tiles>
__device__ __forceinline__ void stage_dq(unsigned char* tile, const float (&acc)[n_tiles][4], int first,
                                         float factor) {
  const int lane = thread_index() % 32;
  const int row = 16 * (thread_index() / 32 % 4) + lane / 4;  // and row + 8
  const bool odd = row % 2 != 0;
  const int byte = row * 128 + (((lane % 4 / 2) << 4) ^ (row & 7) << 4 ^ (odd ? 64 : 0)) + lane % 2 * 8;
#pragma unroll
  for (int n = 0; n < 8; n += n % 2 == 0 ? 1 : 3)  // an iteration stores n and n + 2
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float now[2], then[2];
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        const float near = acc[first + n][2 * half + e] * factor,
                    far = acc[first + n + 2][2 * half + e] * factor;
        now[e] = odd ? far : near;
        then[e] = odd ? near : far;
      }
      unsigned char* const at = tile + n / 4 * 64 * 128 + half * 8 * 128;
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4) << 5)) = float2{now[0], now[1]};
      *reinterpret_cast<float2*>(at + (byte ^ (n % 4 + 2) << 5)) = float2{then[0], then[1]};
    }
}

// Makes rows -0 that are no queries with a gradient: of 64 rows that stage_dq() has staged, in `groups`
// groups of 32 columns, this warp's 16. Their bits in with_gradient are those from `first` on. What -0 is
// added to stays as it is: normal numbers, infinity, and 0 of either sign.
template <int groups>
__device__ __forceinline__ void leave_rows(unsigned char* tiles, const std::uint32_t* with_gradient,
                                           int first) {
  const int begin = 16 * (thread_index() / 32 % 4);
  __syncwarp();
#pragma unroll 1
  for (int row = begin; row < begin + 16; ++row) {
    const int query = first + row;
    if ((with_gradient[query / 32] >> query % 32 & 1) != 0) continue;
#pragma unroll
    for (int group = 0; group < groups; ++group)
      reinterpret_cast<float*>(tiles + group * 64 * 128 + row * 128)[thread_index() % 32] = -0.0f;
  }
}

// How rows are written: if `stored`, they are not added to, and rows that are not live get 0.
struct RowStores {
  bool stored = false;
  bool live[2] = {true, true};
};

// Adds factor * accumulators of 16 rows. A lane has two of them, lane / 4 and lane / 4 + 8; rows[] says where
// these begin in memory, and null leaves one as it is. Neighbouring lanes exchange halves, so that each adds
// four floats in a row. Where rows may be stored, `stores` says whether they are.
// Columns from `width` on are left out.
template <bool may_be_stored = false, int n_tiles>
__device__ __forceinline__ void add_rows(float* const (&rows)[2], const float (&acc)[n_tiles][4],
                                         float factor, int width, const RowStores& stores = {}) {
  const int lane = thread_index() % 32;
  const bool odd = lane % 2 != 0;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
#pragma unroll
    for (int n = 0; n < n_tiles; n += 2) {
      const float mine[2] = {acc[n][2 * half] * factor, acc[n][2 * half + 1] * factor};
      const float next[2] = {acc[n + 1][2 * half] * factor, acc[n + 1][2 * half + 1] * factor};
      const float x = __shfl_xor_sync(all_lanes, odd ? mine[0] : next[0], 1);
      const float y = __shfl_xor_sync(all_lanes, odd ? mine[1] : next[1], 1);
      // Selects instead of branching on `odd`, because one half of the lanes would wait for the other.
      if (rows[half] == nullptr || 8 * (odd ? n + 1 : n) >= width) continue;
      float* const at = rows[half] + 4 * (lane % 4 / 2) + 8 * (odd ? n + 1 : n);
      const float4 four = {odd ? x : mine[0], odd ? y : mine[1], odd ? next[0] : x, odd ? next[1] : y};
      if (may_be_stored && stores.stored)
        *reinterpret_cast<float4*>(at) = stores.live[half] ? four : float4{0, 0, 0, 0};
      else
        red_add_v4(at, four.x, four.y, four.z, four.w);
    }
  }
}

// dq += scale * accumulators, for the block's 64 queries from `first` on and 8 n_tiles columns from `column`
// on. Rows that are no queries with a gradient (with_gradient, as bits) are left alone. If `stored`, and that
// may be: dq = scale * accumulators, and 0 in the block's rows without a gradient; rows beyond the block are
// left alone.
template <bool may_be_stored, int n_tiles>
__device__ __forceinline__ void add_queries(const DeviceView& dq, const Block& block,
                                            const std::uint32_t* with_gradient, int first, int column,
                                            const float (&acc)[n_tiles][4], float scale, bool stored) {
  float* rows[2] = {};
  RowStores stores{.stored = may_be_stored && stored};
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = first + 16 * (thread_index() / 32 % 4) + 8 * half + thread_index() % 32 / 4;
    stores.live[half] = (with_gradient[query / 32] >> query % 32 & 1) != 0;
    if (stores.live[half] || (stores.stored && block.begin + query < block.end))
      rows[half] = row_of<float>(dq, block.head, block.begin + query) + column;
  }
  add_rows<may_be_stored>(rows, acc, scale, dq.width - column, stores);
}

// What consumers have staged of dq of a block. One thread starts to add a part of it to memory by TMA, or to
// store it.
template <class Shape>
struct StagedDq {
  const typename Shape::Params& params;
  FusedStorage<Shape>& memory;
  int begin, head;  // the block's

  __device__ __forceinline__ void add(int part) const {
    by_column_groups<2>(params.single_dq_groups, [&](int n) {
      tma_reduce_add(params.dq, row(part), group(part), head, staged(part, n), column(part, n));
    });
  }
  __device__ __forceinline__ void store(int part) const {
    by_column_groups<2>(params.single_dq_groups, [&](int n) {
      tma_store(params.dq, row(part), head, staged(part, n), group(part), column(part, n));
    });
  }

 private:
  __device__ __forceinline__ int row(int part) const {
    return begin + (Shape::shares_queries ? Shape::dq_rows * part : 0);
  }
  // The part's first group of 32 columns; the first column of its n-th one, in a map of single groups.
  __device__ __forceinline__ int group(int part) const {
    return Shape::shares_queries || params.single_dq_groups ? 0 : 2 * part;
  }
  __device__ __forceinline__ int column(int part, int n) const {
    return params.single_dq_groups ? (Shape::shares_queries ? 0 : 64 * part) + 32 * n : 0;
  }
  __device__ __forceinline__ std::uint32_t staged(int part, int n) const {
    return shared_address(memory.dq_staging[part] + n * Shape::dq_rows * 128);
  }
};

// The shared memory for the parts of dq that a consumer computes. Two consumers have one part each; one alone
// is warpgroup 0, and has both.
template <class Shape>
class DqStaging {
 public:
  static constexpr int parts = Shape::dq_parts_of_consumer;

  __device__ __forceinline__ DqStaging(FusedStorage<Shape>& memory, int warpgroup)
      : memory_(memory), warpgroup_(warpgroup) {}

  // Waits until what was staged for all blocks before `count` has been read.
  __device__ __forceinline__ void wait_until_free(int count) const {
#pragma unroll
    for (int n = 0; n < parts; ++n) wait(shared_address(&memory_.dq_empty[part(n)]), (count & 1) ^ 1);
  }
  // Gives the parts to the producer warpgroup. what: the number of a BlockInfo, dq_nothing_staged or dq_end.
  __device__ __forceinline__ void publish(int what) const {
    if (thread_index() % warpgroup_threads == 0) {
#pragma unroll
      for (int n = 0; n < parts; ++n) memory_.dq_staged[part(n)] = what;
    }
    __syncwarp();
    if (thread_index() % 32 != 0) return;
#pragma unroll
    for (int n = 0; n < parts; ++n) arrive(shared_address(&memory_.dq_full[part(n)]));
  }
  // Which of all parts the consumer's n-th is.
  __device__ __forceinline__ int part(int n) const {
    return n == 0 ? warpgroup_ : n;
  }

 private:
  FusedStorage<Shape>& memory_;
  int warpgroup_;
};

// dq of block `count` in the registers of a consumer: all columns of 64 rows, or all rows of some columns.
// The way of summing dq says how it leaves them (hand_over()).
template <class Shape>
struct DqTile {
  static constexpr int parts = Shape::dq_parts_of_consumer;

  const typename Shape::Params& params;
  FusedStorage<Shape>& memory;
  int warpgroup;  // the consumer
  int slot;       // the number of the block's BlockInfo
  int count;
  bool clean;  // block_clean
  const float (&sums)[8 * parts][4];
  float scale;

  // Waits until its rows can be staged, and published as not staged.
  __device__ __forceinline__ void wait_for_room() const {
    DqStaging<Shape>(memory, warpgroup).wait_until_free(count);
  }
  // Puts all of its rows where TMA finds them.
  __device__ __forceinline__ void stage() const {
    const DqStaging<Shape> staging(memory, warpgroup);
#pragma unroll
    for (int n = 0; n < parts; ++n) stage_dq(memory.dq_staging[staging.part(n)], sums, 8 * n, scale);
  }
  // Makes staged rows that are no queries with a gradient -0.
  __device__ __forceinline__ void leave_rows_without_gradient() const {
    leave_rows<2 * parts>(memory.dq_staging[warpgroup], memory.with_gradient[slot], first_query());
  }
  // Adds those of its rows that are queries with a gradient, by vector atomics; or stores them, if that may
  // be.
  template <bool may_be_stored = false>
  __device__ __forceinline__ void add(bool stored = false) const {
    add_queries<may_be_stored>(params.call.dq, memory.bounds[slot], memory.with_gradient[slot], first_query(),
                               Shape::shares_queries ? 0 : 64 * warpgroup, sums, scale, stored);
  }

 private:
  __device__ __forceinline__ int first_query() const {
    return Shape::shares_queries ? 64 * warpgroup : 0;
  }
};

}  // namespace cplab::kernels::cuda::hopper
