// Rounding dq at the end of a launch whose tiles add to it in any order. When a thread block has no more
// tiles, one thread takes parts of dq, one after the other, waits until all tiles have added to their patch,
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

// By patch how often tiles have been added to it, and how many of its parts have been prepared; how many
// thread blocks have begun, how many numbers of parts were taken to be rounded, and to be prepared, and how
// many threads that take any take no more.
class EndCounters {
 public:
  __device__ __forceinline__ explicit EndCounters(const FusedParams& params)
      : counters_(params.call.end_counters), patches_(params.end.patches) {}

  __device__ __forceinline__ std::int32_t* added(int patch) const { return counters_ + patch; }
  __device__ __forceinline__ std::int32_t* prepared(int patch) const { return counters_ + patches_ + patch; }
  __device__ __forceinline__ std::int32_t* begun() const { return counters_ + 2 * patches_; }
  __device__ __forceinline__ std::int32_t* taken() const { return counters_ + 2 * patches_ + 1; }
  __device__ __forceinline__ std::int32_t* taken_to_prepare() const { return counters_ + 2 * patches_ + 2; }
  __device__ __forceinline__ std::int32_t* ended() const { return counters_ + 2 * patches_ + 3; }
  // For the next launch, when nobody will read them any more.
  __device__ __forceinline__ void reset() const {
    for (int n = 0; n < 2 * patches_ + 4; ++n) counters_[n] = 0;
  }

 private:
  std::int32_t* counters_;
  int patches_;
};

// One thread, before its thread block's first tile: when nothing of the launch before runs any more.
__device__ __forceinline__ void begin_end(const FusedParams& params) {
  if (params.end.parts > 0) add_one(EndCounters(params).begun());
}

// A thread that adds to dq: has done so for a thread block's last block of a tile.
__device__ __forceinline__ void count_tile(const FusedParams& params, int patch) {
  tma_store_wait_until_written();
  fence_device_memory();
  add_one(EndCounters(params).added(patch));
}

// One thread of each kind that takes parts, in each thread block: takes no more. Whoever has taken the last
// part has waited for all tiles of all patches that others did not wait for.
__device__ __forceinline__ void end_taking(const FusedParams& params) {
  const EndCounters counters(params);
  const int all = params.end.beside ? 2 * params.blocks : params.blocks;
  if (atomic_add_one(counters.ended()) == all - 1) counters.reset();
}

template <class Shape>
__device__ __forceinline__ DqRows part_of_dq(const FusedParams& params, int number) {
  const DqEnd& end = params.end;
  const SectionList& sections = params.call.sections;
  if (sections.parts == nullptr) {  // head after head
    const int head = end.of_head.quotient(number),
              begin = Shape::end_rows * end.of_head.remainder(number, head);
    return {begin, min(begin + Shape::end_rows, params.call.q.rows), head, end.of_unit.quotient(head),
            params.call.by_k.live * end.adds_of_tile};
  }
  const int group = end.of_group.quotient(number), in_group = end.of_group.remainder(number, group);
  const int first_head = group * end.units_together * params.heads_of_tile;
  const int heads = min(end.units_together * params.heads_of_tile, params.call.q.heads - first_head);
  const int section_number = sections.parts[in_group / heads].section;
  const DqSection section = sections.all[section_number];
  const int in_section = in_group - section.first_part * heads, in_group_head = in_section / section.parts,
            head = first_head + in_group_head;
  const DqPart part = sections.parts[section.first_part + in_section - in_group_head * section.parts];
  return {part.begin, part.end, head, section_number * end.units + end.of_unit.quotient(head),
          section.tiles * end.adds_of_tile};
}

// One thread, when there are no more tiles.
template <class Shape>
__device__ __forceinline__ void call_parts(const FusedParams& params, FusedStorage<Shape>& memory) {
  using Slots = PipelineIndex<Shape::end_slots>;
  const DqEnd& end = params.end;
  if (end.parts == 0) return;
  const EndCounters counters(params);
  int part = reached(counters.begun(), params.blocks) ? atomic_add_one(counters.taken()) : end.parts;
  for (int count = 0, complete = -1;; ++count) {
    const bool more = part < end.parts;
    DqRows rows = {0, 0, -1, 0, 0};
    if (more) {
      const int number = part;
      part = atomic_add_one(counters.taken());  // asked for now, because the answer takes a while
      rows = part_of_dq<Shape>(params, number);
      if (rows.patch != complete) poll_for_count(counters.added(rows.patch), rows.adds);
      complete = rows.patch;
    }
    const int slot = Slots::stage(count);
    wait(shared_address(&memory.end.empty[slot]), Slots::parity(count) ^ 1);
    memory.end.rows[slot] = rows;
    arrive(shared_address(&memory.end.full[slot]));
    if (!more) break;
  }
  end_taking(params);
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
    const DqRows at = memory.end.rows[slot];
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
        if (first + n * step < at.end)
          four[n][half] = load_added(from + n * step * sums.row_stride + half * half_row);
#pragma unroll
    for (int n = 0; n < times; ++n)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float4& sum = four[n][half];
        if (first + n * step < at.end)
          store_once(to + n * step * into.row_stride + half * half_row,
                     make_uint2(Element<T>::pack(sum.x, sum.y), Element<T>::pack(sum.z, sum.w)));
      }
  }
}

}  // namespace cplab::kernels::cuda::hopper
