// From the segments of a work tile (kernels/tiles/params.hpp) to the blocks of keys, or of queries, that a
// thread block multiplies it with: what FlashAttention calls n_block (m_block where the tile is of keys).
#pragma once

#include <cstdint>

#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// A block of columns against the rows of a tile. In the forward and for dq the tile's rows are queries and
// the columns are keys; for dk and dv the rows are keys and the columns are queries of one head. The block
// begins at column `begin` and is as wide as the kernel's blocks are; `end` is the end of the segment's
// columns that have a live pair with the rows [row_begin, row_end). Kept in shared memory, because registers
// are short.
struct __align__(16) Block {
  int begin, end;
  int row_begin, row_end;
  int low, high;  // a pair is live if column - row is in [low, high]
  int segment;    // its number in the work list; `nowhere`: there is no such block
  int head;       // dk, dv: the query head of the columns

  static constexpr int nowhere = -1;
  __device__ __forceinline__ bool live() const {
    return segment != nowhere;
  }
};

// What the rows of a tile are: queries (forward, dq) or keys (dk, dv).
enum class Owner { queries, keys };

// The first block with a live pair from block.segment on; after the tile's last segment, that of the next
// head. Downward: segments come from the tile's last to its first.
template <Owner owner, bool downward = false>
__device__ __forceinline__ Block enter_segments(Block block, int stop_head, const WorkTile& tile,
                                                const DeviceSegment* segments) {
  const int last = tile.first + tile.count - 1;
  for (; block.head < stop_head; ++block.head, block.segment = downward ? last : tile.first) {
    for (; downward ? block.segment >= tile.first : block.segment < tile.first + tile.count;
         block.segment += downward ? -1 : 1) {
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

// The tile's first block, for column heads `head` .. `stop_head` - 1.
template <Owner owner>
__device__ __forceinline__ Block first_block(int head, int stop_head, const WorkTile& tile,
                                             const DeviceSegment* segments) {
  Block block = {};
  block.head = head;
  block.segment = tile.first;
  return enter_segments<owner>(block, stop_head, tile, segments);
}

// The block after `block`; blocks have `columns` columns.
template <Owner owner, int columns>
__device__ __forceinline__ Block next_block(Block block, int stop_head, const WorkTile& tile,
                                            const DeviceSegment* segments) {
  if (!block.live()) return block;
  block.begin += columns;
  if (block.begin < block.end) return block;
  ++block.segment;
  return enter_segments<owner>(block, stop_head, tile, segments);
}

// The same blocks of a tile with each head's in the opposite order: segments from the tile's last to its
// first, and blocks of a segment likewise.
template <int columns>
__device__ __forceinline__ Block at_last_columns(Block block) {
  if (block.live()) block.begin += (block.end - 1 - block.begin) / columns * columns;
  return block;
}
template <int columns, Owner owner = Owner::keys>
__device__ __forceinline__ Block first_block_downward(int head, int stop_head, const WorkTile& tile,
                                                      const DeviceSegment* segments) {
  Block block = {};
  block.head = head;
  block.segment = tile.first + tile.count - 1;
  return at_last_columns<columns>(enter_segments<owner, true>(block, stop_head, tile, segments));
}
template <int columns, Owner owner = Owner::keys>
__device__ __forceinline__ Block next_block_downward(Block block, int stop_head, const WorkTile& tile,
                                                     const DeviceSegment* segments) {
  if (!block.live()) return block;
  block.begin -= columns;
  const DeviceSegment& of = segments[block.segment];
  const int first = owner == Owner::keys ? of.q_begin : of.k_begin;
  if (block.begin >= max(first, block.row_begin + block.low)) return block;
  --block.segment;
  return at_last_columns<columns>(enter_segments<owner, true>(block, stop_head, tile, segments));
}

// Whether a row of the tile has a live pair in one segment, or in any of the tile's segments but the first
// `skip`.
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

}  // namespace cplab::kernels::cuda
