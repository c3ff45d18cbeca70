// The walk of a thread block over the segments of its work tile, block by block of the other side's rows, and
// which pairs of a block are live.
#pragma once

#include <cstdint>

#include "kernels/cuda/mma.cuh"
#include "kernels/work/params.hpp"

namespace cplab::kernels::cuda {

// A block of keys against the rows of a tile of queries. Columns [begin, end) of the segment are each live
// for some of the rows [row_begin, row_end); the block is the first of them. The dk/dv kernel turns this
// around: rows are keys, columns queries of one head. Blocks lie in shared memory, four of them in a ring,
// because registers are short; thread 0 finds them one block ahead of the copies.
struct __align__(16) Block {
  int begin, end;
  int row_begin, row_end;
  int low, high;  // column - row is live from low to high
  int segment;    // where in the list
  int head;       // dk/dv: the query head

  static constexpr int nowhere = -1;
  __device__ __forceinline__ bool live() const {
    return segment != nowhere;
  }
};

// The walk of one thread block, in its shared memory.
struct __align__(16) Walk {
  Block ring[4];
  WorkTile tile;
  int kv_head;
  int stop_head;  // the end of the heads that are walked

  __device__ __forceinline__ Block& block(int at) {
    return ring[at & 3];
  }
};

// Whose rows a tile has.
enum class Owner { queries, keys };

// The first block of the segments from block.segment on, or of the heads after block.head.
template <Owner owner>
__device__ __forceinline__ Block enter_segments(Block block, int stop_head, const WorkTile& tile,
                                                const DeviceSegment* segments) {
  for (; block.head < stop_head; ++block.head, block.segment = tile.first) {
    for (; block.segment < tile.first + tile.count; ++block.segment) {
      const DeviceSegment entered = segments[block.segment];
      constexpr bool queries = owner == Owner::queries;
      block.row_begin = max(tile.begin, queries ? entered.q_begin : entered.k_begin);
      block.row_end = min(tile.end, queries ? entered.q_end : entered.k_end);
      block.low = queries ? entered.low : -entered.high;
      block.high = queries ? entered.high : -entered.low;
      if (block.row_begin >= block.row_end) continue;
      block.begin = max(queries ? entered.k_begin : entered.q_begin, block.row_begin + block.low);
      block.end = min((queries ? entered.k_end : entered.q_end) - 1, block.row_end - 1 + block.high) + 1;
      if (block.begin < block.end) return block;
    }
  }
  block.segment = Block::nowhere;
  return block;
}

// The heads are `head` .. `stop_head` - 1.
template <Owner owner>
__device__ __forceinline__ Block first_block(int head, int stop_head, const WorkTile& tile,
                                             const DeviceSegment* segments) {
  Block block = {};
  block.head = head;
  block.segment = tile.first;
  return enter_segments<owner>(block, stop_head, tile, segments);
}

template <Owner owner, int columns>
__device__ __forceinline__ Block next_block(Block block, int stop_head, const WorkTile& tile,
                                            const DeviceSegment* segments) {
  if (!block.live()) return block;
  block.begin += columns;
  if (block.begin < block.end) return block;
  ++block.segment;
  return enter_segments<owner>(block, stop_head, tile, segments);
}

// Whether a row has a live pair in a segment; in any of the tile's segments from the skip-th on.
template <Owner owner>
__device__ __forceinline__ bool has_live_pair(int row, const DeviceSegment& segment) {
  if constexpr (owner == Owner::queries) {
    return row >= segment.q_begin && row < segment.q_end &&
           max(segment.k_begin, row + segment.low) <= min(segment.k_end - 1, row + segment.high);
  } else {
    return row >= segment.k_begin && row < segment.k_end &&
           max(segment.q_begin, row - segment.high) <= min(segment.q_end - 1, row - segment.low);
  }
}
template <Owner owner>
__device__ __forceinline__ bool has_live_pair(int row, const WorkTile& tile, const DeviceSegment* segments,
                                              int skip = 0) {
  for (int at = tile.first + skip; at < tile.first + tile.count; ++at)
    if (has_live_pair<owner>(row, segments[at])) return true;
  return false;
}

enum class Cover { none, some, all };

// How much of the calling warp's `rows` rows x columns column .. column + columns - 1 is live.
template <int rows, int columns>
__device__ __forceinline__ Cover cover_of(const Walk& walk, const Block& block, int column) {
  const int row = walk.tile.begin + thread_index() / 32 * rows;
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

// Replaces the products of pairs that are not live, in the rows of the calling warp.
template <int m_tiles, int n_tiles>
__device__ __forceinline__ void mask_pairs(Sums<m_tiles, n_tiles>& sums, const Walk& walk, const Block& block,
                                           int column, float value) {
  const int thread = thread_index();
  const int lane = thread % 32;
#pragma unroll
  for (int m = 0; m < m_tiles; ++m)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = walk.tile.begin + (thread / 32 * m_tiles + m) * 16 + 8 * half + lane / 4;
      const bool in_rows = i >= block.row_begin && i < block.row_end;
      const int begin = max(column, i + block.low);
      const int last = min(min(column + 8 * n_tiles, block.end) - 1, i + block.high);
      mask_row(sums[m], half, begin - column, in_rows ? last - column + 1 : begin - column, lane, value);
    }
}

}  // namespace cplab::kernels::cuda
