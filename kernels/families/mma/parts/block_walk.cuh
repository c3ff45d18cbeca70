// How a thread block of the mma kernels walks the blocks of its work tile, and which pairs of a block are
// live.
#pragma once

#include "kernels/families/parts/accumulators.cuh"
#include "kernels/families/parts/segment_blocks.cuh"

namespace cplab::kernels::cuda {

// In shared memory. Thread 0 finds blocks one ahead of the one whose copies are started, so four are enough.
struct __align__(16) Walk {
  Block ring[4];
  WorkTile tile;
  int kv_head;
  int stop_head;  // dk, dv: the end of the query heads

  __device__ __forceinline__ Block& block(int at) {
    return ring[at & 3];
  }
};

// How many pairs of a part of a block are live.
enum class Cover { none, some, all };

// Of `rows` rows of a warp, the calling one's or another's, and columns column .. column + columns - 1.
template <int rows, int columns>
__device__ __forceinline__ Cover cover_of(const Walk& walk, const Block& block, int column,
                                          int warp = thread_index() / 32) {
  const int row = walk.tile.begin + warp * rows;
  const int row_last = min(row + rows, walk.tile.end) - 1;
  const int column_last = min(column + columns, block.end) - 1;
  const int first = max(row, block.row_begin);
  const int last = min(row_last, block.row_end - 1);
  if (first > last || column > column_last) return Cover::none;
  if (first + block.low > column_last || last + block.high < column) return Cover::none;
  const bool all = first == row && last == row_last && column_last == column + columns - 1 &&
                   last + block.low <= column && column_last <= first + block.high;
  return all ? Cover::all : Cover::some;
}

// Sets the scores of pairs that are not live to `value`, in the rows of a warp.
template <int m_tiles, int n_tiles>
__device__ __forceinline__ void mask_pairs(Accumulators<m_tiles, n_tiles>& acc, const Walk& walk,
                                           const Block& block, int column, float value,
                                           int warp = thread_index() / 32) {
  const int lane = thread_index() % 32;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = walk.tile.begin + (warp * m_tiles + m) * 16 + 8 * half + lane / 4;
      const bool in_rows = i >= block.row_begin && i < block.row_end;
      const int begin = max(column, i + block.low);
      const int last = min(min(column + 8 * n_tiles, block.end) - 1, i + block.high);
      mask_row(acc[m], half, begin - column, in_rows ? last - column + 1 : begin - column, lane, value);
    }
}

}  // namespace cplab::kernels::cuda
