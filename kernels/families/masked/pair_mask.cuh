// Bias and keep mask of single pairs, and the walk over cells that hold a kept one: what all kernels of
// dynamic mask attention share. Device code.
#pragma once

#include <cstdint>

#include "kernels/families/parts/element.cuh"
#include "kernels/families/parts/primitives.cuh"
#include "kernels/families/parts/segment_blocks.cuh"
#include "kernels/tiles/masked_params.hpp"

namespace cplab::kernels::cuda {

// The head of a bias or keep mask that a query head reads.
__device__ __forceinline__ int mask_head(const DeviceView& view, int head, int q_heads) {
  return head / (q_heads / view.heads);
}

// Where the number of a pair lies, in elements behind view.data.
__device__ __forceinline__ std::int64_t pair_offset(const DevicePairMask& mask, const DeviceView& view,
                                                    int head, int query, int key) {
  if (!mask.full) return row_offset(view, key, head);
  return row_offset(view, query, head) +
         (mask.columns != nullptr ? mask.columns[key] : mask.first_column + key);
}

// The column of the table for a key that lies `distance` behind its query.
__device__ __forceinline__ int bucket_of(const DevicePairMask& mask, int distance) {
  const int later = mask.later_buckets, far = later > 0 || distance < 0 ? abs(distance) : 0;
  return mask.bucket_of[min(far, mask.last_distance)] + (distance > 0 ? later : 0);
}

// The bias of a pair by its positions.
template <class T>
__device__ __forceinline__ T placed_bias(const DevicePairMask& mask, int head, int query, int key) {
  const int distance = mask.positions[key] - mask.positions[mask.k_rows + query];
  if (mask.slopes != nullptr) return -static_cast<T>(mask.slopes[head]) * static_cast<T>(abs(distance));
  return load_element_as<T>(mask.table.data, mask.table.dtype,
                            row_offset(mask.table, 0, head) + bucket_of(mask, distance));
}

// The first kept cell of columns [cell, end) in a row of cells; `end` if there is none. By a whole warp,
// which looks at 1,024 cells at a time.
__device__ __forceinline__ int first_kept_cell(const CellBits& bits, int head, int row_cell, int cell,
                                               int end) {
  if (bits.words == nullptr) return cell;
  const std::uint32_t* const words =
      bits.words + (static_cast<std::int64_t>(head) * bits.rows + row_cell) * bits.row_words;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  for (int first = cell / cells_per_word; first * cells_per_word < end; first += 32) {
    const int mine = first + lane;
    std::uint32_t word = mine * cells_per_word < end ? words[mine] : 0;
    if (mine == cell / cells_per_word) word &= ~0U << (cell % cells_per_word);
    const unsigned any = __ballot_sync(all_lanes, word != 0);
    if (any == 0) continue;
    const int holder = __ffs(static_cast<int>(any)) - 1;
    const std::uint32_t found = __shfl_sync(all_lanes, word, holder);
    return min((first + holder) * cells_per_word + __ffs(static_cast<int>(found)) - 1, end);
  }
  return end;
}

// The keep mask of a walk: bits of the tile's rows, and which of its heads a query head reads.
struct KeptCells {
  CellBits bits;
  int q_heads, keep_heads;

  __device__ __forceinline__ int first(int head, int row_cell, int cell, int end) const {
    if (bits.words == nullptr) return cell;
    return first_kept_cell(bits, head / (q_heads / keep_heads), row_cell, cell, end);
  }
};

// Blocks of a tile as in segment_blocks.cuh, but of the columns of one cell at most, and only those in which
// a pair is kept: `end` is the block's own. The tile's rows are of one cell. By a whole warp.
//
// The first such block that begins at column `from` of segment block.segment and head block.head or later.
template <Owner owner>
__device__ __forceinline__ Block find_kept_block(Block block, int from, int stop_head, const WorkTile& tile,
                                                 const DeviceSegment* segments, const KeptCells& kept) {
  const int row_cell = tile.begin / cell_rows;
  for (;; from = 0) {
    block = enter_segments<owner>(block, stop_head, tile, segments);
    if (!block.live()) return block;
    const int begin = max(block.begin, from);
    if (begin < block.end) {
      const int stop = (block.end + cell_rows - 1) / cell_rows;
      const int cell = kept.first(block.head, row_cell, begin / cell_rows, stop);
      if (cell < stop) {
        block.begin = max(begin, cell * cell_rows);
        block.end = min(block.end, (cell + 1) * cell_rows);
        return block;
      }
    }
    ++block.segment;
  }
}

template <Owner owner>
__device__ __forceinline__ Block first_kept_block(int head, int stop_head, const WorkTile& tile,
                                                  const DeviceSegment* segments, const KeptCells& kept) {
  Block block = {};
  block.head = head;
  block.segment = tile.first;
  return find_kept_block<owner>(block, 0, stop_head, tile, segments, kept);
}

template <Owner owner>
__device__ __forceinline__ Block next_kept_block(const Block& block, int stop_head, const WorkTile& tile,
                                                 const DeviceSegment* segments, const KeptCells& kept) {
  if (!block.live()) return block;
  return find_kept_block<owner>(block, block.end, stop_head, tile, segments, kept);
}

}  // namespace cplab::kernels::cuda
