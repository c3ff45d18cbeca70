// Chains of tiles of keys for the Hopper backward that sums dq by chains. A chain is all tiles of keys that
// add to the same rows of dq, mostly a sequence; one thread block takes a chain from its first tile to its
// last. So it can store the first piece of each cell (turns.hpp), and round the cell when it has added the
// last. Plain host code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// What the kernel can count: cells of a chain, over all query heads of a tile, and pieces of a cell.
constexpr int most_chain_cells = 256, most_cell_pieces = 255;

struct TileChains {
  std::vector<TileChain> chains;     // the chain with most pieces first
  std::vector<std::int32_t> pieces;  // of each cell, chain after chain
};

// Finds the chains of a list, and puts its tiles with segments in the order of chains; those of a chain keep
// their order. Returns nothing, and leaves the list as it was, unless
// - every piece is a whole cell, counted from its chain's first row,
// - each of the call's q_rows rows gets a piece, and
// - the kernel can count cells and pieces where a tile has heads_of_tile query heads.
// width: of a head of q.
std::optional<TileChains> tile_chains(WorkTables& by_k, std::int64_t q_rows, std::int64_t width,
                                      std::int64_t heads_of_tile);

// The chains of a call whose views have row spaces (row_space.hpp), with their tiles of keys: these have at
// most `height` rows and are cut where sequences begin.
struct ChainTiles {
  WorkTables by_k;
  TileChains chains;
};
std::optional<ChainTiles> chain_tiles(const AttendBackward& call, std::int64_t height);

}  // namespace cplab::kernels::cuda
