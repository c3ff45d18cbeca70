// Whose rows a thread block of the kernels for few queries has: the query heads of one key head, or a part of
// them, side by side.
#pragma once

#include "kernels/families/parts/primitives.cuh"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/split_tiles.hpp"

namespace cplab::kernels::cuda {

struct PackedRows {
  int first_head, heads;  // query heads
  int begin, count;       // first query; rows

  __device__ __forceinline__ int query(int row) const { return begin + row / heads; }
  __device__ __forceinline__ int head(int row) const { return first_head + row % heads; }
};

// Of the thread block with that number: part after part of the query heads, then key head after key head,
// then tile after tile.
struct TilePart {
  int tile, key_head, part;
};
__device__ __forceinline__ TilePart tile_part(unsigned number, const PackedHeads& packed, int key_heads) {
  const int block = static_cast<int>(number);
  return {block / packed.parts / key_heads, block / packed.parts % key_heads, block % packed.parts};
}

__device__ __forceinline__ PackedRows packed_rows(const AttendParams& params, const PackedHeads& packed,
                                                  const TilePart& of, int begin, int end) {
  const int group = params.q.heads / params.k.heads, first = of.part * packed.heads;
  PackedRows rows;
  rows.first_head = of.key_head * group + first;
  rows.heads = min(packed.heads, group - first);
  rows.begin = begin;
  rows.count = (end - begin) * rows.heads;
  return rows;
}

// Where the partial results of a tile of the work list begin, in rows (SplitKeys).
__device__ __forceinline__ std::int64_t first_partial_row(const AttendParams& params,
                                                          const PackedHeads& packed, int tile,
                                                          const TilePart& of, int tile_rows) {
  return ((std::int64_t{tile} * params.k.heads + of.key_head) * packed.parts + of.part) * tile_rows;
}

}  // namespace cplab::kernels::cuda
