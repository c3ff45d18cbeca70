// Counts the pieces that come before each unit, cell by cell; see turns.hpp.
#include "kernels/work/turns.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {
namespace {

// Calls visit(first cell, end of cells, pieces) where a unit adds that many pieces to each of the cells. Its
// pieces have as many rows as cells: where they straddle cells, all cells but the outermost have two.
template <class Visit>
void for_each_stretch(const RowRange& rows, std::int64_t cell_rows, Visit visit) {
  if (rows.begin == rows.end) return;
  const std::int64_t pieces = (rows.end - rows.begin + cell_rows - 1) / cell_rows;
  const std::int64_t first = rows.begin / cell_rows, end = (rows.end - 1) / cell_rows + 1;
  if (rows.begin % cell_rows == 0) return visit(first, end, 1);
  // Piece n lies in cells first + n and first + n + 1, the last one perhaps in the former alone.
  visit(first, first + 1, 1);
  visit(first + 1, first + pieces, 2);
  if (first + pieces < end) visit(first + pieces, end, 1);
}

}  // namespace

RowRange queries_of(const WorkTile& tile, const DeviceSegment& s) {
  const std::int64_t k_begin = std::max(tile.begin, s.k_begin), k_end = std::min(tile.end, s.k_end);
  if (k_begin >= k_end) return {0, 0};
  const RowRange rows = {std::max<std::int64_t>(s.q_begin, k_begin - s.high),
                         std::min<std::int64_t>(s.q_end, k_end - s.low)};
  return rows.begin < rows.end ? rows : RowRange{0, 0};
}

DqTurns dq_turns(const WorkTables& by_k, std::int64_t rows, std::int64_t width) {
  const std::int64_t cell_rows = dq_cell_rows(width);
  DqTurns turns;
  turns.cells = static_cast<std::int32_t>((rows + cell_rows - 1) / cell_rows);
  std::vector<std::int32_t> before(static_cast<std::size_t>(turns.cells));
  const std::span tiles(by_k.tiles.data(), static_cast<std::size_t>(live_tiles(by_k)));
  turns.even = by_k.even;
  const auto for_each_unit = [&](auto visit) {
    for (const WorkTile& tile : tiles)
      for (std::int32_t s = tile.first + tile.count - 1; s >= tile.first; --s)
        visit(queries_of(tile, by_k.segments[static_cast<std::size_t>(s)]));
  };
  const auto add = [cell_rows](std::vector<std::int32_t>& counts, const RowRange& unit) {
    for_each_stretch(unit, cell_rows, [&](std::int64_t first, std::int64_t end, std::int32_t pieces) {
      for (std::int64_t cell = first; cell < end; ++cell) counts[static_cast<std::size_t>(cell)] += pieces;
    });
  };
  std::int32_t units = 0;
  for (const WorkTile& tile : tiles) {
    turns.unit_of_tile.push_back(units);
    units += tile.count;
  }
  for_each_unit([&](const RowRange& unit) {
    turns.first_run.push_back(static_cast<std::int32_t>(turns.runs.size()));
    bool entered = false;
    for_each_stretch(unit, cell_rows, [&](std::int64_t first, std::int64_t end, std::int32_t pieces) {
      for (auto cell = static_cast<std::size_t>(first); cell < static_cast<std::size_t>(end); ++cell) {
        const TurnRun run{.cell = static_cast<std::int32_t>(cell), .before = before[cell], .own = pieces};
        if (entered && turns.runs.back().before == run.before && turns.runs.back().own == run.own) continue;
        entered = true;
        turns.runs.push_back(run);
      }
    });
    add(before, unit);
    require(turns.runs.size() <= std::numeric_limits<std::int32_t>::max(),
            "a list of segments is too long for a GPU");
  });
  turns.first_run.push_back(static_cast<std::int32_t>(turns.runs.size()));
  turns.total = std::move(before);
  return turns;
}

HeadGroups head_groups(int heads, int fitting, bool even) {
  const int most = std::max(std::min(fitting, even ? heads : heads / 2), 1);
  HeadGroups groups;
  const int count = (heads + most - 1) / most;
  if (count == 0) return groups;
  groups.heads = (heads + count - 1) / count;  // groups of equal size
  if (!even) groups.opposite = (heads - 1) / groups.heads * groups.heads;
  return groups;
}

void interleave_segments(WorkTables& by_k) {
  if (!by_k.even) return;
  const auto live = static_cast<std::size_t>(live_tiles(by_k));
  // How many tiles before it have the same segments.
  std::vector<std::size_t> rank(live), order(live);
  std::unordered_map<std::int32_t, std::size_t> seen;
  for (std::size_t tile = 0; tile < live; ++tile) rank[tile] = seen[by_k.tiles[tile].first]++;
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return rank[a] < rank[b]; });
  const std::vector<WorkTile> listed = by_k.tiles;
  for (std::size_t n = 0; n < live; ++n) by_k.tiles[n] = listed[order[n]];
}

std::int64_t dq_counters(const DqTurns& turns, std::int64_t heads) {
  return turns.cells * heads;
}

std::int64_t dkv_counters(const DqTurns& turns, std::int64_t kv_heads) {
  return static_cast<std::int64_t>(turns.unit_of_tile.size()) * kv_heads * dkv_turns_of_tile;
}

}  // namespace cplab::kernels::cuda
