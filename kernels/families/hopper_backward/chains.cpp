// Finds chains: tiles whose query rows overlap belong to one (chains.hpp).
#include "kernels/families/hopper_backward/chains.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/families/fits.hpp"
#include "kernels/families/hopper_backward/turns.hpp"
#include "kernels/tiles/row_space.hpp"
#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {
namespace {

// The rows from the first to the last query that a tile of keys walks over, gaps included.
RowRange hull_of(const WorkTile& tile, const std::vector<DeviceSegment>& segments) {
  RowRange hull = {0, 0};
  for (std::int32_t at = tile.first; at < tile.first + tile.count; ++at) {
    const RowRange rows = queries_of(tile, segments[static_cast<std::size_t>(at)]);
    if (rows.begin == rows.end) continue;
    if (hull.begin == hull.end) hull = rows;
    hull = {std::min(hull.begin, rows.begin), std::max(hull.end, rows.end)};
  }
  return hull;
}

// A range of rows of q, and the tiles that walk over it: their places in the list, ascending.
struct TilesOfRows {
  RowRange rows;
  std::vector<std::size_t> tiles;
};

// Joins the hulls of all tiles with segments where they overlap; ascending by rows.
std::vector<TilesOfRows> joined_hulls(const WorkTables& by_k) {
  std::vector<RowRange> hulls;
  for (std::size_t n = 0; n < static_cast<std::size_t>(live_tiles(by_k)); ++n)
    hulls.push_back(hull_of(by_k.tiles[n], by_k.segments));
  std::vector<std::size_t> order(hulls.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return hulls[a].begin < hulls[b].begin; });
  std::vector<TilesOfRows> all;
  for (const std::size_t tile : order) {
    if (all.empty() || hulls[tile].begin >= all.back().rows.end) all.push_back({hulls[tile], {}});
    all.back().rows.end = std::max(all.back().rows.end, hulls[tile].end);
    all.back().tiles.push_back(tile);
  }
  for (TilesOfRows& found : all) std::sort(found.tiles.begin(), found.tiles.end());
  return all;
}

// A chain that has been found.
struct Found {
  RowRange rows;
  std::vector<std::size_t> tiles;   // places in the list, ascending
  std::vector<std::int32_t> cells;  // how many pieces each cell gets
  std::int64_t work = 0;            // how many pieces all cells get together
};

// Counts the pieces of a chain's cells. Returns false if a piece is not a whole cell, or if a cell gets no
// piece or more than the kernel can count.
bool count_pieces(Found& chain, const WorkTables& by_k, std::int64_t cell_rows) {
  if ((chain.rows.end - chain.rows.begin) % cell_rows != 0) return false;
  chain.cells.resize(static_cast<std::size_t>((chain.rows.end - chain.rows.begin) / cell_rows));
  for (const std::size_t place : chain.tiles) {
    const WorkTile& tile = by_k.tiles[place];
    for (std::int32_t s = tile.first; s < tile.first + tile.count; ++s) {
      const RowRange rows = queries_of(tile, by_k.segments[static_cast<std::size_t>(s)]);
      const std::int64_t begin = rows.begin - chain.rows.begin, end = rows.end - chain.rows.begin;
      if (rows.begin == rows.end) continue;
      if (begin % cell_rows != 0 || end % cell_rows != 0) return false;
      for (std::int64_t cell = begin / cell_rows; cell < end / cell_rows; ++cell)
        ++chain.cells[static_cast<std::size_t>(cell)];
      chain.work += (end - begin) / cell_rows;
    }
  }
  return std::all_of(chain.cells.begin(), chain.cells.end(),
                     [](std::int32_t pieces) { return pieces > 0 && pieces <= most_cell_pieces; });
}

}  // namespace

std::optional<TileChains> tile_chains(WorkTables& by_k, std::int64_t q_rows, std::int64_t width,
                                      std::int64_t heads_of_tile) {
  if (live_tiles(by_k) == 0) return {};
  std::vector<Found> found;
  for (TilesOfRows& each : joined_hulls(by_k)) found.push_back({each.rows, std::move(each.tiles), {}});
  std::int64_t rows = 0;
  for (Found& chain : found) {
    if (!count_pieces(chain, by_k, dq_cell_rows(width))) return {};
    if (static_cast<std::int64_t>(chain.cells.size()) * heads_of_tile > most_chain_cells) return {};
    rows += chain.rows.end - chain.rows.begin;
  }
  if (rows != q_rows) return {};  // no row is in two chains, and all are rows of the call
  std::stable_sort(found.begin(), found.end(),
                   [](const Found& a, const Found& b) { return a.work > b.work; });
  TileChains chains;
  std::vector<WorkTile> tiles;
  for (const Found& chain : found) {
    const auto first = static_cast<std::int32_t>(tiles.size());
    for (const std::size_t place : chain.tiles) tiles.push_back(by_k.tiles[place]);
    chains.chains.push_back({.first_tile = first,
                             .stop_tile = static_cast<std::int32_t>(tiles.size()),
                             .row_begin = static_cast<std::int32_t>(chain.rows.begin),
                             .first_cell = static_cast<std::int32_t>(chains.pieces.size()),
                             .cells = static_cast<std::int32_t>(chain.cells.size())});
    chains.pieces.insert(chains.pieces.end(), chain.cells.begin(), chain.cells.end());
  }
  std::copy(tiles.begin(), tiles.end(), by_k.tiles.begin());
  return chains;
}

std::optional<ChainTiles> chain_tiles(const AttendBackward& call, std::int64_t height) {
  const std::optional<RowSpaces> spaces = row_spaces(call);
  if (!spaces || call.k.heads == 0) return {};
  const auto live = in_space(live_segments(call.segments), spaces->q, spaces->k);
  std::vector<DeviceSegment> of_keys;
  for (const DeviceSegment& segment : live) of_keys.push_back(transposed(segment));
  const std::vector<RowRange> ranges = spaces->k.ranges();
  ChainTiles made;
  made.by_k = key_tiles(live, row_cuts(segment_borders(of_keys, spaces->k.rows, height, ranges), height),
                        call.write_dk == Write::store, ranges);
  std::optional<TileChains> chains =
      tile_chains(made.by_k, call.q.rows, std::max(call.q.width, call.v.width), call.q.heads / call.k.heads);
  if (!chains) return {};
  made.chains = std::move(*chains);
  return made;
}

}  // namespace cplab::kernels::cuda
