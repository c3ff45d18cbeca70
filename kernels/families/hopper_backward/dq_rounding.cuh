// Rounds cells of dq that are complete: a warp loads the sums, which are still in the L2 cache, and stores
// them in the dtype of q. Chains use this, because they know which piece of a cell is its last
// (dq_sum_chains.cuh).
#pragma once

#include <cstdint>

#include "kernels/families/hopper_backward/shared_storage.cuh"
#include "kernels/families/parts/hopper/column_groups.cuh"
#include "kernels/families/parts/hopper/instructions.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda::hopper {

// A block of queries from row `begin` on, whose dq is complete.
struct DqCell {
  int begin, head;
};

// The sums of a cell come back from memory in strips of 32 rows and 64 columns.
constexpr int rounding_rows = 32, rounding_strips = 4, rounding_bytes = rounding_rows * 64 * 4;

// Complete cells on their way from the thread that adds to the warp that rounds, and strips of them.
struct RoundingStorage {
  static constexpr int slots = 16, buffers = 2;
  using Slots = PipelineIndex<slots>;

  DqCell cell[slots];  // after the last one comes a cell of head -1
  std::uint64_t full[slots], empty[slots];
  std::uint64_t strip_full[buffers], strip_empty[buffers];

  __device__ __forceinline__ void init_barriers() {
    for (std::uint64_t& barrier : full) init_barrier(shared_address(&barrier), 1);
    for (std::uint64_t& barrier : empty) init_barrier(shared_address(&barrier), 32);
    for (std::uint64_t& barrier : strip_full) init_barrier(shared_address(&barrier), 1);
    for (std::uint64_t& barrier : strip_empty) init_barrier(shared_address(&barrier), 32);
  }

  // Says that a cell, the number-th of the thread block, is complete: it has been written, and the calling
  // thread has seen that. A cell of head -1 says that there will be no more.
  __device__ __forceinline__ void publish(int number, const DqCell& complete) {
    const int slot = Slots::stage(number);
    wait(shared_address(&empty[slot]), Slots::parity(number) ^ 1);
    cell[slot] = complete;
    arrive(shared_address(&full[slot]));
  }
};

// Where the n-th strip of a cell begins: its first row in the cell, and its first column.
template <class Shape>
struct RoundingStrip {
  static constexpr int column_groups = Shape::head_size / 64;
  static_assert(Shape::queries / rounding_rows * column_groups == rounding_strips);
  static_assert(rounding_bytes == rounding_rows * 64 * 4);
  static __device__ __forceinline__ int row(int n) { return n / column_groups * rounding_rows; }
  static __device__ __forceinline__ int column(int n) { return n % column_groups * 64; }
};

// One thread starts to load a strip that begins in this row and column.
__device__ __forceinline__ void load_strip(unsigned char* strip, const CUtensorMap& sums, int row, int head,
                                           int column, std::uint32_t full, bool single_groups) {
  arrive_and_expect_tx(full, rounding_bytes);
  by_column_groups<2>(single_groups, [&](int n) {
    tma_load_once(shared_address(strip + n * rounding_rows * 128), sums, row, head, full,
                  single_groups ? 0 : column / 32, single_groups ? column + 32 * n : 0);
  });
}

// A warp stores a strip, rounded, without the rows from `end` on. It stores eight rows at once, 32 columns of
// each and then the other 32. A quarter of the warp reads four chunks of four columns in two rows, which the
// swizzle puts in different banks.
template <class T>
__device__ __forceinline__ void store_strip(const unsigned char* strip, const DeviceView& into, int row,
                                            int end, int head, int column) {
  const int lane = thread_index() % 32, eight = lane % 4, in_eight = lane / 4;
  const int first = row + in_eight, rows = end - first;
  const int low = in_eight * 128 + (2 * eight ^ in_eight) * 16;
  T* at_row = head_of<T>(into, head) + first * into.row_stride + column + 8 * eight;
#pragma unroll
  for (int at = 0; at < rounding_rows; at += 8) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const unsigned char* const from = strip + half * rounding_rows * 128 + at * 128;
      const auto a = *reinterpret_cast<const float4*>(from + low),
                 b = *reinterpret_cast<const float4*>(from + (low ^ 16));
      if (at < rows && column + 8 * eight + 32 * half < into.width)
        store_once(at_row + 32 * half, make_uint4(Element<T>::pack(a.x, a.y), Element<T>::pack(a.z, a.w),
                                                  Element<T>::pack(b.x, b.y), Element<T>::pack(b.z, b.w)));
    }
    at_row += 8 * into.row_stride;
  }
}

// The warp that rounds; all of its lanes call everything. Strips of the next cell may be on their way too.
template <class T, class Shape>
class DqRounding {
 public:
  // `sums` is a tensor map of dq in fp32, and `into` is where dq in T goes. The strip_buffers lie one after
  // the other, at a multiple of 1024 bytes.
  __device__ __forceinline__ DqRounding(const CUtensorMap& sums, const DeviceView& into,
                                        RoundingStorage& storage, unsigned char* strip_buffers,
                                        bool single_groups)
      : sums_(sums),
        into_(into),
        storage_(storage),
        strip_buffers_(strip_buffers),
        single_groups_(single_groups) {}

  // Rounds all cells that will be complete.
  __device__ __forceinline__ void run() {
    while (!ended_ || is_loading()) {
      if (!must_load()) {
        const BarrierPhase next = is_loading() ? strip_phase() : cell_phase();
        wait_for_any(next, can_load() ? cell_phase() : next, next);
      }
      go_on();
    }
  }

 private:
  static constexpr int strips = rounding_strips, buffers = RoundingStorage::buffers;
  using Slots = RoundingStorage::Slots;
  using Buffers = PipelineIndex<buffers>;
  using Strip = RoundingStrip<Shape>;

  static __device__ __forceinline__ bool all_see(const BarrierPhase& phase) {
    return __all_sync(all_lanes, is_over(phase)) != 0;
  }

  // Whether a buffer is free, and cells may still come.
  __device__ __forceinline__ bool can_load() const { return !ended_ && loaded_ - rounded_ < buffers; }
  // Whether a buffer is free, and a cell has come that is not loaded to its end.
  __device__ __forceinline__ bool must_load() const { return can_load() && loaded_ % strips != 0; }
  // Whether a strip is on its way, or has come.
  __device__ __forceinline__ bool is_loading() const { return rounded_ < loaded_; }
  // The phase that is over when the next cell has come.
  __device__ __forceinline__ BarrierPhase cell_phase() const {
    const int cell = loaded_ / strips;
    return {shared_address(&storage_.full[Slots::stage(cell)]), Slots::parity(cell)};
  }
  // The phase that is over when the next strip has come.
  __device__ __forceinline__ BarrierPhase strip_phase() const {
    return {shared_address(&storage_.strip_full[Buffers::stage(rounded_)]), Buffers::parity(rounded_)};
  }

  // Does what can be done without waiting: starts to load a strip, or rounds one.
  __device__ __forceinline__ void go_on() {
    if (must_load() || (can_load() && all_see(cell_phase())))
      load();
    else if (is_loading() && all_see(strip_phase()))
      round();
  }

  __device__ __forceinline__ const DqCell& cell_of(int strip) const {
    return storage_.cell[Slots::stage(strip / strips)];
  }
  __device__ __forceinline__ void load() {
    const DqCell& cell = cell_of(loaded_);
    if (cell.head < 0) {
      ended_ = true;
      return;
    }
    if (thread_index() % 32 == 0) {
      const int buffer = Buffers::stage(loaded_);
      const std::uint32_t full = shared_address(&storage_.strip_full[buffer]);
      wait(shared_address(&storage_.strip_empty[buffer]), Buffers::parity(loaded_) ^ 1);
      if (loaded_ % strips == 0) fence_view_async_global();  // TMA sees the sums, as the thread has that adds
      load_strip(strip_buffers_ + buffer * rounding_bytes, sums_, cell.begin + Strip::row(loaded_ % strips),
                 cell.head, Strip::column(loaded_ % strips), full, single_groups_);
    }
    ++loaded_;
  }

  __device__ __forceinline__ void round() {
    const int buffer = Buffers::stage(rounded_);
    const DqCell& cell = cell_of(rounded_);
    store_strip<T>(strip_buffers_ + buffer * rounding_bytes, into_,
                   cell.begin + Strip::row(rounded_ % strips), into_.rows, cell.head,
                   Strip::column(rounded_ % strips));
    arrive(shared_address(&storage_.strip_empty[buffer]));
    if (rounded_ % strips == strips - 1)
      arrive(shared_address(&storage_.empty[Slots::stage(rounded_ / strips)]));
    ++rounded_;
  }

  const CUtensorMap& sums_;
  const DeviceView& into_;
  RoundingStorage& storage_;
  unsigned char* strip_buffers_;
  bool single_groups_;            // of the map of the sums
  int loaded_ = 0, rounded_ = 0;  // strips so far
  bool ended_ = false;
};

}  // namespace cplab::kernels::cuda::hopper
