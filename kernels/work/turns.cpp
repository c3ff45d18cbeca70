// Counts the pieces that come before each unit, cell by cell; see turns.hpp.
#include "kernels/work/turns.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
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
  turns.even = by_k.even;
  turns.whole = whole_pieces(by_k, rows, width);
  std::vector<std::int32_t> before(static_cast<std::size_t>(turns.cells));
  turns.total_before_ending = before;
  std::vector<std::vector<TurnRun>> runs;  // of each unit
  const auto add_unit = [&](const RowRange& unit, std::vector<TurnRun>& runs_of_unit) {
    for_each_stretch(unit, cell_rows, [&](std::int64_t first, std::int64_t end, std::int32_t pieces) {
      for (auto cell = static_cast<std::size_t>(first); cell < static_cast<std::size_t>(end); ++cell) {
        const TurnRun run{.cell = static_cast<std::int32_t>(cell), .before = before[cell], .own = pieces};
        before[cell] += pieces;
        if (!runs_of_unit.empty() && runs_of_unit.back().before == run.before &&
            runs_of_unit.back().own == run.own)
          continue;
        runs_of_unit.push_back(run);
      }
    });
  };
  const std::int32_t live = live_tiles(by_k);
  const std::int32_t together = std::max(by_k.ring, 1);
  for (std::int32_t begin = 0; begin < live; begin += together) {
    const std::int32_t end = std::min(begin + together, live);
    if (begin == by_k.ending) turns.total_before_ending = before;
    std::int32_t most_units = 0;
    for (std::int32_t n = begin; n < end; ++n) {
      const WorkTile& tile = by_k.tiles[static_cast<std::size_t>(n)];
      turns.unit_of_tile.push_back(static_cast<std::int32_t>(runs.size()));
      runs.resize(runs.size() + static_cast<std::size_t>(tile.count));
      most_units = std::max(most_units, tile.count);
    }
    for (std::int32_t unit = 0; unit < most_units; ++unit)
      for (std::int32_t n = begin; n < end; ++n) {
        const WorkTile& tile = by_k.tiles[static_cast<std::size_t>(n)];
        if (unit >= tile.count) continue;
        const std::int32_t segment = tile.first + tile.count - 1 - unit;
        add_unit(queries_of(tile, by_k.segments[static_cast<std::size_t>(segment)]),
                 runs[static_cast<std::size_t>(turns.unit_of_tile[static_cast<std::size_t>(n)] + unit)]);
      }
  }
  for (const std::vector<TurnRun>& of_unit : runs) {
    turns.first_run.push_back(static_cast<std::int32_t>(turns.runs.size()));
    turns.runs.insert(turns.runs.end(), of_unit.begin(), of_unit.end());
  }
  turns.first_run.push_back(static_cast<std::int32_t>(turns.runs.size()));
  require(turns.runs.size() <= std::numeric_limits<std::int32_t>::max(),
          "a list of segments is too long for a GPU");
  turns.total = std::move(before);
  return turns;
}

bool whole_pieces(const WorkTables& by_k, std::int64_t rows, std::int64_t width) {
  const std::int64_t cell_rows = dq_cell_rows(width);
  const std::int32_t live = live_tiles(by_k);
  std::vector<RowRange> units;
  for (std::int32_t n = 0; n < live; ++n) {
    const WorkTile& tile = by_k.tiles[static_cast<std::size_t>(n)];
    for (std::int32_t s = tile.first; s < tile.first + tile.count; ++s) {
      const RowRange unit = queries_of(tile, by_k.segments[static_cast<std::size_t>(s)]);
      if (unit.begin == unit.end) continue;
      if (unit.begin % cell_rows != 0 || (unit.end % cell_rows != 0 && unit.end != rows)) return false;
      units.push_back(unit);
    }
  }
  std::sort(units.begin(), units.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const RowRange& unit : units) {
    if (unit.begin > covered) return false;
    covered = std::max(covered, unit.end);
  }
  return covered == rows;
}

HeadGroups head_groups(int heads, int fitting, bool even, std::int32_t ending) {
  const int most = std::max(std::min(fitting, even || ending > 0 ? heads : heads / 2), 1);
  HeadGroups groups;
  const int count = (heads + most - 1) / most;
  if (count == 0) return groups;
  groups.heads = (heads + count - 1) / count;  // groups of equal size
  if (even) return groups;
  groups.opposite_heads = (heads - 1) / groups.heads * groups.heads;
  groups.opposite_tiles = ending;
  return groups;
}

std::int64_t dq_counters(const DqTurns& turns, std::int64_t heads) {
  return turns.cells * heads;
}

std::int64_t dkv_counters(const DqTurns& turns, std::int64_t kv_heads) {
  return static_cast<std::int64_t>(turns.unit_of_tile.size()) * kv_heads * dkv_turns_of_tile;
}

}  // namespace cplab::kernels::cuda
