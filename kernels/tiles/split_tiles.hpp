// How calls of few queries are cut: the query heads of a key head are rows of one tile, and the keys of a
// tile go to several thread blocks, so that all multiprocessors have some. Plain host code.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// Rows of a tile are pairs of query and head: row r is query r / heads of the tile, head r % heads of a part
// of the query heads of one key head.
struct PackedHeads {
  std::int32_t heads = 1;    // of a part; of the last one what is left
  std::int32_t parts = 1;    // of the query heads of a key head
  std::int32_t queries = 1;  // of a tile
};
constexpr PackedHeads packed_heads(std::int64_t query_heads, std::int64_t key_heads, std::int32_t tile_rows) {
  const auto group = static_cast<std::int32_t>(key_heads > 0 ? query_heads / key_heads : 1);
  const std::int32_t heads = std::clamp(group, 1, tile_rows);
  return {heads, std::max((group + heads - 1) / heads, 1), tile_rows / heads};
}

struct KeySplit {
  std::int64_t queries = 1;       // of a tile
  std::int64_t keys = 64;         // of a block
  std::int64_t least_blocks = 1;  // of a piece, unless the tile has fewer
  std::int64_t tile_blocks = 1;   // thread blocks that each tile is launched as: key heads times parts
  std::int64_t at_once = 1;       // thread blocks that the multiprocessors hold together
};

// Tiles of at most so many queries, none of which straddles the end of a segment's rows, because such rows
// see other keys; each as pieces, tiles of the same rows that follow each other, whose segments have a part
// of the keys each, in whole blocks but for the last. There are as many pieces as thread blocks at once,
// shared out by blocks, and no fewer than one of a tile.
WorkTables split_tiles(std::span<const DeviceSegment> live, std::int64_t rows, bool keep_empty,
                       const KeySplit& split);

// The tiles of split_tiles() with their pieces; none where no tile has several.
std::vector<SplitRows> split_rows(const WorkTables& work);

}  // namespace cplab::kernels::cuda
