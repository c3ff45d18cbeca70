// Rounding dq at the end of a launch whose tiles add to it in any order. When a thread block has no more
// tiles, one thread takes parts of dq, one after the other, waits until all tiles have added to their head,
// and passes them to the consumers. These load the sums, which may still be in the L2 cache, and store them
// in the dtype of q. So no other launch does, and heads that are complete early are rounded while other
// multiprocessors have their last tiles.
//
// Nobody waits for ever: a thread block takes parts only if all of the launch run, else it ends, and leaves
// them to those that are still to begin. Of these the last one finds that all have begun. And tiles wait for
// nobody.
#pragma once

#include "kernels/cuda/hopper/backward_fused/shared_storage.cuh"
#include "kernels/cuda/hopper/parts/instructions.cuh"
#include "kernels/cuda/parts/output_rows.cuh"
#include "kernels/cuda/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// How often tiles have been added to the dq of their unit, by its first head; how many thread blocks have
// begun, how many numbers of parts were taken, and how many thread blocks take no more.
class EndCounters {
 public:
  __device__ __forceinline__ explicit EndCounters(const AttendBackwardParams& call)
      : counters_(call.end_counters), heads_(call.q.heads) {}

  __device__ __forceinline__ std::int32_t* of_unit(int first_head) const { return counters_ + first_head; }
  __device__ __forceinline__ std::int32_t* begun() const { return counters_ + heads_; }
  __device__ __forceinline__ std::int32_t* taken() const { return counters_ + heads_ + 1; }
  __device__ __forceinline__ std::int32_t* ended() const { return counters_ + heads_ + 2; }
  // For the next launch, when nobody will read them any more.
  __device__ __forceinline__ void reset() const {
    for (int n = 0; n < heads_ + 3; ++n) counters_[n] = 0;
  }

 private:
  std::int32_t* counters_;
  int heads_;
};

// One thread, before its thread block's first tile: when nothing of the launch before runs any more.
__device__ __forceinline__ void begin_end(const FusedParams& params) {
  if (params.end.parts > 0) add_one(EndCounters(params.call).begun());
}

// A thread that adds to dq: has done so for a thread block's last block of a tile.
__device__ __forceinline__ void count_tile(const FusedParams& params, int first_head) {
  tma_store_wait_until_written();
  fence_device_memory();
  add_one(EndCounters(params.call).of_unit(first_head));
}

// One thread, when there are no more tiles.
template <class Shape>
__device__ __forceinline__ void call_parts(const FusedParams& params, FusedStorage<Shape>& memory) {
  using Slots = PipelineIndex<Shape::end_slots>;
  const DqEnd& end = params.end;
  if (end.parts == 0) return;
  const EndCounters counters(params.call);
  int part = reached(counters.begun(), params.blocks) ? atomic_add_one(counters.taken()) : end.parts;
  for (int count = 0, complete = -1;; ++count) {
    const bool more = part < end.parts;
    DqCell rows = {0, -1};
    if (more) {
      const int unit = end.of_unit.quotient(part), in_unit = end.of_unit.remainder(part, unit),
                head = end.of_head.quotient(in_unit), first_head = unit * params.heads_of_tile;
      rows = {Shape::end_rows * end.of_head.remainder(in_unit, head), first_head + head};
      part = atomic_add_one(counters.taken());  // asked for now, because the answer takes a while
      if (unit != complete) poll_for_count(counters.of_unit(first_head), end.adds_of_unit);
      complete = unit;
    }
    const int slot = Slots::stage(count);
    wait(shared_address(&memory.end.empty[slot]), Slots::parity(count) ^ 1);
    memory.end.rows[slot] = rows;
    arrive(shared_address(&memory.end.full[slot]));
    if (!more) break;
  }
  // Whoever has taken the last part has waited for all tiles of all heads that others did not wait for.
  if (atomic_add_one(counters.ended()) == params.blocks - 1) counters.reset();
}

// All threads of the consumers. Each takes four columns of each half of a row, so that what a warp loads or
// stores at once lies side by side, and all rows of a part that it has at once.
template <class T, class Shape>
__device__ __forceinline__ void round_parts(const FusedParams& params, FusedStorage<Shape>& memory) {
  using Slots = PipelineIndex<Shape::end_slots>;
  constexpr int half_row = Shape::head_size / 2, lanes_of_row = half_row / 4,
                step = warpgroup_threads * Shape::consumers / lanes_of_row, times = Shape::end_rows / step;
  if (params.end.parts == 0) return;
  const DeviceView &sums = params.call.dq, &into = params.call.rounded_dq;
  const int thread = thread_index() - warpgroup_threads, column = thread % lanes_of_row * 4;
  for (int count = 0;; ++count) {
    const int slot = Slots::stage(count);
    wait(shared_address(&memory.end.full[slot]), Slots::parity(count));
    const DqCell at = memory.end.rows[slot];
    arrive(shared_address(&memory.end.empty[slot]));
    if (at.head < 0) return;
    const int first = at.begin + thread / lanes_of_row;
    const float* const from = head_of<float>(sums, at.head) + first * sums.row_stride + column;
    T* const to = head_of<T>(into, at.head) + first * into.row_stride + column;
    float4 four[times][2];
#pragma unroll
    for (int n = 0; n < times; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (first + n * step < into.rows)
          four[n][half] = load_added(from + n * step * sums.row_stride + half * half_row);
#pragma unroll
    for (int n = 0; n < times; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4& sum = four[n][half];
        if (first + n * step < into.rows)
          store_once(to + n * step * into.row_stride + half * half_row,
                     make_uint2(Element<T>::pack(sum.x, sum.y), Element<T>::pack(sum.z, sum.w)));
      }
  }
}

}  // namespace cplab::kernels::cuda::hopper
