// Chains of tiles of keys that add to the same rows of dq, for the backward kernel that gives a chain to one
// thread block. Plain host code.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// Cells of all query heads of a chain, and pieces of a cell, that the kernel can count.
constexpr int most_chain_cells = 256, most_cell_pieces = 255;

struct TileChains {
  std::vector<TileChain> chains;  // most rows of pieces first
  std::vector<std::int32_t> pieces;
};

// Puts the tiles with segments in the order of chains, those of a chain as they were. Nothing, and by_k is as
// it was, unless in every chain all blocks of queries begin a multiple of blocks from the chain's first row
// and are whole, all of the call's q_rows get a piece, and the kernel can count the pieces where a tile has
// that many query heads. width: of a head of q.
std::optional<TileChains> tile_chains(WorkTables& by_k, std::int64_t q_rows, std::int64_t width,
                                      std::int64_t heads_of_tile);

// The tiles of keys of a call whose views have row spaces, at most `height` rows each, cut where sequences
// begin, and their chains.
struct ChainTiles {
  WorkTables by_k;
  TileChains chains;
};
std::optional<ChainTiles> chain_tiles(const AttendBackward& call, std::int64_t height);

}  // namespace cplab::kernels::cuda
