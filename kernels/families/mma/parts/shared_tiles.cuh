// Tiles of 16-bit rows in shared memory for the mma kernels: swizzled, filled by cp.async, read by ldmatrix.
// SM 8.0 and up.
#pragma once

#include <cstdint>

#include "kernels/families/mma/parts/instructions.cuh"
#include "kernels/families/parts/output_rows.cuh"
#include "kernels/families/parts/primitives.cuh"

namespace cplab::kernels::cuda {

// --- tiles in shared memory ------------------------------------------------------------------------------

// A tile has rows of D elements, in chunks of 16 bytes. Chunk c of row r lies where chunk c ^ swizzle(r)
// would: the eight rows of an ldmatrix matrix, and the 16-byte stores of a quarter warp, then hit all
// 32 banks once. Tiles begin at multiples of 256 bytes, and of a row where that is a power of 2.
template <int D>
struct Tile {
  static_assert(D == 32 || D == 96 || D % 64 == 0);
  static constexpr int row_bytes = 2 * D;
  static constexpr int chunks = D / 8;
  static constexpr bool wide_rows = D % 64 == 0;  // a row covers all banks
  static constexpr bool aligned_rows = (D & (D - 1)) == 0;

  static __device__ __forceinline__ std::uint32_t offset(int row, int chunk) {
    const int swizzle = wide_rows ? row & 7 : (row >> 1) & 3;
    return static_cast<std::uint32_t>(row * row_bytes + ((chunk ^ swizzle) << 4));
  }
};

// The row and chunk a lane points ldmatrix at. Rows may be added in multiples of 16 (the swizzle repeats).
template <int D>
class LaneAddress {
 public:
  __device__ __forceinline__ LaneAddress(std::uint32_t tile, int row, int chunk) {
    if constexpr (Tile<D>::aligned_rows) {
      at_ = tile + Tile<D>::offset(row, chunk);
    } else {
      at_ = tile + static_cast<std::uint32_t>(row * Tile<D>::row_bytes);
      in_row_ = Tile<D>::offset(row, chunk) - static_cast<std::uint32_t>(row * Tile<D>::row_bytes);
    }
  }

  // `pairs` pairs of chunks (16 elements each) further in the row. XOR commutes with the swizzle because
  // the lane's own chunk is 0 or 1.
  __device__ __forceinline__ std::uint32_t along(int pairs) const {
    const auto step = static_cast<std::uint32_t>(pairs * 32);
    if constexpr (Tile<D>::aligned_rows) return at_ ^ step;
    return at_ + (in_row_ ^ step);
  }

  __device__ __forceinline__ LaneAddress down(int rows) const {
    LaneAddress result = *this;
    result.at_ += static_cast<std::uint32_t>(rows * Tile<D>::row_bytes);
    return result;
  }

 private:
  std::uint32_t at_ = 0;
  std::uint32_t in_row_ = 0;
};

// Addresses are made where they are used: that costs a few instructions but no registers around a loop.
//
// For the A operand of gemm_ss (rows x D), and for the B operand of gemm_rs (whose rows are the summed
// index).
template <int D>
__device__ __forceinline__ LaneAddress<D> address_rows(std::uint32_t tile) {
  const int lane = thread_index() % 32;
  return LaneAddress<D>(tile, lane & 15, lane >> 4);
}

// For an A operand, where each warp has `rows` rows of its own.
template <int D, int rows>
__device__ __forceinline__ LaneAddress<D> address_own_rows(std::uint32_t tile,
                                                           int warp = thread_index() / 32) {
  return address_rows<D>(tile).down(warp * rows);
}

// For the B operand of gemm_ss.
template <int D>
__device__ __forceinline__ LaneAddress<D> address_columns(std::uint32_t tile) {
  const int lane = thread_index() % 32;
  return LaneAddress<D>(tile, (lane & 7) + ((lane >> 4) << 3), (lane >> 3) & 1);
}

// Starts the copy of rows first .. first + rows - 1 of one head into a tile; rows from `end` on become zero
// and are not read. first < end.
template <class T, int D, int rows, int threads>
__device__ __forceinline__ void load_tile(std::uint32_t tile, const DeviceView& view, int head, int first,
                                          int end) {
  constexpr int chunks = Tile<D>::chunks;
  constexpr int passes = rows * chunks / threads;
  static_assert(passes * threads == rows * chunks);
  const int thread = thread_index();
  const T* data = head_of<const T>(view, head);
  if constexpr (threads % (8 * chunks) == 0) {  // each pass is a whole number of swizzle periods
    if (view.map == nullptr && end - first >= rows) {
      constexpr int step = threads / chunks;
      const int row = thread / chunks;
      const int chunk = thread % chunks;
      const std::uint32_t to = tile + Tile<D>::offset(row, chunk);
      const T* from = data + (first + row) * view.row_stride + 8 * chunk;
#pragma unroll
      for (int pass = 0; pass < passes; ++pass) {
        cp_async_16(to + static_cast<std::uint32_t>(pass * step * Tile<D>::row_bytes), from, 16);
        from += step * view.row_stride;
      }
      return;
    }
  }
#pragma unroll 4
  for (int pass = 0; pass < passes; ++pass) {
    const int index = thread + pass * threads;
    const int row = index / chunks;
    const int chunk = index % chunks;
    const bool inside = first + row < end;
    const int compact = inside ? first + row : first;
    const std::int64_t physical = view.map != nullptr ? view.map[compact] : compact;
    cp_async_16(tile + Tile<D>::offset(row, chunk), data + physical * view.row_stride + 8 * chunk,
                inside ? 16 : 0);
  }
}

}  // namespace cplab::kernels::cuda
