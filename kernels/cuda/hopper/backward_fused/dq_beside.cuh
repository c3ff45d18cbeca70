// What a warp of each thread block does beside tiles that add to dq in any order: work that memory binds,
// which would else be launches before and behind this one. First it prepares: parts of q, in the order in
// which tiles come to them, get delta = rowsum(dout * out) and dq = 0. What the first tiles need, the launch
// before has prepared. Then it rounds parts of dq whose patch is complete, until what is left is of the tiles
// that end the launch; that the consumers round (dq_end.cuh).
//
// Nobody waits for ever. A tile waits until its patch has been prepared, by warps that have taken parts and
// wait for nobody. Whoever rounds waits for tiles, and only if all thread blocks of the launch run.
#pragma once

#include <cstdint>

#include "kernels/cuda/hopper/backward_fused/dq_end.cuh"
#include "kernels/cuda/hopper/backward_fused/dq_rounding.cuh"
#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/parts/output_rows.cuh"
#include "kernels/cuda/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// Before a block's delta is loaded: the first block of a tile waits until the tile's patch has been prepared.
template <class Shape>
__device__ __forceinline__ void wait_for_preparation(const FusedParams& params, FusedStorage<Shape>& memory,
                                                     int tile) {
  const int parts = memory.parts_before_tile[tile];
  if (parts == 0) return;
  poll_for_count(EndCounters(params).prepared(memory.patch_of_tile[tile]), parts);
  fence_view_async_global();  // for TMA, which loads delta, and adds to dq behind the barriers to come
}

// The warp: all lanes call everything.
template <class T, class Shape>
class BesideDq {
 public:
  __device__ __forceinline__ BesideDq(const FusedParams& params, FusedStorage<Shape>& memory)
      : params_(params), memory_(memory), counters_(params) {}

  __device__ __forceinline__ void run() {
    prepare();
    if (all_begun()) round();
    if (lane() == 0) end_taking(params_);
  }

 private:
  static constexpr int buffers = Shape::rounding_buffers, groups = Shape::head_size / 64;
  static constexpr int half_bytes = rounding_rows * 128;  // of out, or of dout: 64 columns of 16 bits
  using Buffers = PipelineIndex<buffers>;
  using Strip = RoundingStrip<Shape>;
  static_assert(2 * groups * half_bytes <= (buffers - 1) * rounding_bytes, "the last buffer holds zeros");

  static __device__ __forceinline__ int lane() { return thread_index() % 32; }
  static __device__ __forceinline__ int of_first_lane(int number) {
    return __shfl_sync(all_lanes, number, 0);
  }

  __device__ __forceinline__ void prepare() {
    const DqEnd& end = params_.end;
    if (end.first_prepared >= end.parts) return;
    unsigned char* const zeros = memory_.rounding.strip[buffers - 1];
    for (int n = lane(); n < rounding_bytes / 16; n += 32) reinterpret_cast<uint4*>(zeros)[n] = {};
    fence_view_async_shared();
    __syncwarp();
    int next = lane() == 0 ? atomic_add_one(counters_.taken_to_prepare()) : 0;
    for (int turn = 0;;) {
      const int part = end.first_prepared + of_first_lane(next);
      if (part >= end.parts) break;
      if (lane() == 0) next = atomic_add_one(counters_.taken_to_prepare());
      const DqRows rows = part_of_dq<Shape>(params_, part);
      for (int row = rows.begin; row < rows.end; row += rounding_rows, ++turn) {
        const bool whole = row + rounding_rows <= rows.end || rows.end == params_.call.q.rows;
        if (lane() == 0) start(row, rows.head, whole);
        if (!whole) clear_rows(row, rows.end, rows.head);
        wait(shared_address(&memory_.beside.rows_full), turn & 1);
        const float delta = row_dot();
        if (row + lane() < rows.end) *row_of<float>(params_.call.delta, rows.head, row + lane()) = delta;
        __syncwarp();  // all have read
      }
      if (lane() != 0) continue;
      tma_store_wait_until_written();
      fence_device_memory();
      add_one(counters_.prepared(rows.patch));
    }
  }

  // One thread: out and dout of the rows are on their way, and so are zeros to dq, if the rows of the box are
  // all of the part, or beyond the tensor.
  __device__ __forceinline__ void start(int row, int head, bool clears) {
    const std::uint32_t full = shared_address(&memory_.beside.rows_full);
    const std::uint32_t into = shared_address(memory_.rounding.strip[0]);
    arrive_and_expect_tx(full, 2 * groups * half_bytes);
    tma_load_once(into, params_.out_strips, row, head, full);
    tma_load(into + groups * half_bytes, params_.dout_strips, row, head, full);
    if (!clears) return;
#pragma unroll
    for (int group = 0; group < groups; ++group)
      tma_store(params_.dq_strips, row, head, shared_address(memory_.rounding.strip[buffers - 1]), 2 * group);
  }

  __device__ __forceinline__ void clear_rows(int row, int end, int head) const {
    constexpr int fours = Shape::head_size / 4;
    for (int n = lane(); n < (end - row) * fours; n += 32)
      *reinterpret_cast<float4*>(row_of<float>(params_.call.dq, head, row + n / fours) + n % fours * 4) = {};
  }

  // Of this lane's row. Eight lanes read different chunks of 16 bytes of their rows, by the swizzle.
  __device__ __forceinline__ float row_dot() const {
    const unsigned char* const row = memory_.rounding.strip[0] + lane() * 128;
    float sum = 0;
#pragma unroll
    for (int group = 0; group < groups; ++group)
#pragma unroll 2
      for (int chunk = 0; chunk < 8; ++chunk) {
        const unsigned char* const at = row + group * half_bytes + ((chunk ^ lane() % 8) << 4);
        const auto a = *reinterpret_cast<const uint4*>(at),
                   b = *reinterpret_cast<const uint4*>(at + groups * half_bytes);
        sum += dot(a.x, b.x) + dot(a.y, b.y) + dot(a.z, b.z) + dot(a.w, b.w);
      }
    return sum;
  }
  static __device__ __forceinline__ float dot(std::uint32_t a, std::uint32_t b) {
    using Two = typename Pair<T>::type;
    const float2 x = Pair<T>::widen(*reinterpret_cast<const Two*>(&a)),
                 y = Pair<T>::widen(*reinterpret_cast<const Two*>(&b));
    return x.x * y.x + x.y * y.y;
  }

  // Thread blocks begin at about the same time; but where one does not for long, nobody waits for it. All
  // lanes must come to the same answer.
  __device__ __forceinline__ bool all_begun() const {
    constexpr int most_polls = 200;
    for (int n = 0; n < most_polls; ++n)
      if (__all_sync(all_lanes, reached(counters_.begun(), params_.blocks)) != 0) return true;
    return false;
  }

  __device__ __forceinline__ int take() const {
    if (lane() != 0) return 0;
    return reached(counters_.taken(), params_.end.rounded_beside) ? params_.end.parts
                                                                  : atomic_add_one(counters_.taken());
  }

  __device__ __forceinline__ void round() {
    int next = take(), loaded = 0, stored = 0;
    for (;;) {
      const int part = of_first_lane(next);
      if (part >= params_.end.parts) return;
      next = take();
      const DqRows rows = part_of_dq<Shape>(params_, part);
      wait_for_count(counters_.added(rows.patch), rows.adds);
      fence_view_async_global();
      const int strips = (rows.end - rows.begin + rounding_rows - 1) / rounding_rows * groups;
      for (int begun = 0, n = 0; n < strips; ++n, ++stored) {
        for (; begun < min(strips, n + buffers); ++begun, ++loaded)
          if (lane() == 0)
            load_strip(memory_.rounding.strip[Buffers::stage(loaded)], params_.dq_strips,
                       rows.begin + Strip::row(begun), rows.head, Strip::column(begun),
                       shared_address(&memory_.beside.strip_full[Buffers::stage(loaded)]));
        wait(shared_address(&memory_.beside.strip_full[Buffers::stage(stored)]), Buffers::parity(stored));
        store_strip<T>(memory_.rounding.strip[Buffers::stage(stored)], params_.call.rounded_dq,
                       rows.begin + Strip::row(n), rows.end, rows.head, Strip::column(n));
        __syncwarp();
      }
    }
  }

  const FusedParams& params_;
  FusedStorage<Shape>& memory_;
  const EndCounters counters_;
};

}  // namespace cplab::kernels::cuda::hopper
