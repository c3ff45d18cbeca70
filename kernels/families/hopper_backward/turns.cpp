// Counts, cell by cell, the pieces that come before each unit (turns.hpp).
#include "kernels/families/hopper_backward/turns.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <utility>

#include "kernels/call_checks.hpp"

namespace cplab::kernels::cuda {
namespace {

// Calls visit(first cell, end of cells, pieces) for each stretch of cells to which a unit adds equally many
// pieces. A unit's pieces are as high as cells: if they straddle cells, all of its cells but the outermost
// get two.
template <class Visit>
void for_each_stretch(const RowRange& rows, std::int64_t rows_of_cell, Visit visit) {
  if (rows.begin == rows.end) return;
  const std::int64_t pieces = (rows.end - rows.begin + rows_of_cell - 1) / rows_of_cell;
  const std::int64_t first = rows.begin / rows_of_cell, end = (rows.end - 1) / rows_of_cell + 1;
  if (rows.begin % rows_of_cell == 0) return visit(first, end, 1);
  // The n-th piece lies in cells first + n and first + n + 1, the last one perhaps in cell first + n alone.
  visit(first, first + 1, 1);
  visit(first + 1, first + pieces, 2);
  if (first + pieces < end) visit(first + pieces, end, 1);
}

// The query rows of each unit of a list, in the order of units (DqTurns).
std::vector<RowRange> units_of(const WorkTables& by_k) {
  std::vector<RowRange> units;
  const std::int32_t live = live_tiles(by_k);
  for (std::int32_t n = 0; n < live; ++n) {
    const WorkTile& tile = by_k.tiles[static_cast<std::size_t>(n)];
    for (std::int32_t s = tile.first + tile.count; s-- > tile.first;)
      units.push_back(queries_of(tile, by_k.segments[static_cast<std::size_t>(s)]));
  }
  return units;
}

// Where the cells of dq lie: row r of a unit is in cell (r + the unit's shift) / rows_of_cell.
struct CellGrid {
  std::vector<std::int32_t> shift_of_unit;
  std::int64_t cells = 0;
};

// Chooses the shifts. Units that have rows in common, directly or through others, get the same shift, and the
// cells of the next such set of units come after theirs. The shift is the one with which units of most rows
// begin where a cell begins, so that their pieces lie in one cell.
CellGrid cell_grid(const std::vector<RowRange>& units, std::int64_t rows_of_cell) {
  std::vector<std::size_t> order(units.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return units[a].begin < units[b].begin; });
  CellGrid grid{.shift_of_unit = std::vector<std::int32_t>(units.size())};
  for (auto first = order.begin(); first != order.end();) {
    const std::int64_t begin = units[*first].begin;
    std::int64_t end = units[*first].end;
    std::vector<std::int64_t> rows_behind(static_cast<std::size_t>(rows_of_cell));  // by where they begin
    auto next = first;
    for (; next != order.end() && (next == first || units[*next].begin < end); ++next) {
      const RowRange& unit = units[*next];
      rows_behind[static_cast<std::size_t>((unit.begin - begin) % rows_of_cell)] += unit.end - unit.begin;
      end = std::max(end, unit.end);
    }
    // Where the first cell begins: at `begin`, or some rows before it.
    const std::int64_t behind =
        std::max_element(rows_behind.begin(), rows_behind.end()) - rows_behind.begin();
    const std::int64_t origin = behind == 0 ? begin : begin + behind - rows_of_cell;
    for (; first != next; ++first)
      grid.shift_of_unit[*first] = static_cast<std::int32_t>(grid.cells * rows_of_cell - origin);
    grid.cells += (end - origin + rows_of_cell - 1) / rows_of_cell;
  }
  return grid;
}

}  // namespace

DqTurns dq_turns(const WorkTables& by_k, std::int64_t rows, std::int64_t width) {
  const std::int64_t rows_of_cell = dq_cell_rows(width);
  const std::vector<RowRange> units = units_of(by_k);
  const CellGrid grid = cell_grid(units, rows_of_cell);
  // Tables, counters and the kernel number cells and runs by 32 bits.
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  require(grid.cells * rows_of_cell <= most, "a list of segments is too long for a GPU");
  DqTurns turns;
  turns.cells = static_cast<std::int32_t>(grid.cells);
  turns.even = by_k.even;
  turns.full = all_full(by_k);
  turns.whole = whole_pieces(by_k, rows, width);
  std::vector<std::int32_t> before(static_cast<std::size_t>(turns.cells));
  turns.total_before_ending = before;
  std::vector<std::vector<TurnRun>> runs(units.size());
  const auto add_unit = [&](std::size_t unit) {
    const std::int64_t shift = grid.shift_of_unit[unit];
    const RowRange shifted = {units[unit].begin + shift, units[unit].end + shift};
    for_each_stretch(shifted, rows_of_cell, [&](std::int64_t first, std::int64_t end, std::int32_t pieces) {
      for (auto cell = static_cast<std::size_t>(first); cell < static_cast<std::size_t>(end); ++cell) {
        const TurnRun run{.cell = static_cast<std::int32_t>(cell), .before = before[cell], .own = pieces};
        before[cell] += pieces;
        if (!runs[unit].empty() && runs[unit].back().before == run.before && runs[unit].back().own == run.own)
          continue;
        runs[unit].push_back(run);
      }
    });
  };
  const std::int32_t live = live_tiles(by_k);
  std::int32_t count = 0;
  for (std::int32_t n = 0; n < live; ++n) {
    if (n == by_k.ending) turns.total_before_ending = before;
    turns.unit_of_tile.push_back(count);
    const std::int32_t end = count + by_k.tiles[static_cast<std::size_t>(n)].count;
    for (; count < end; ++count) add_unit(static_cast<std::size_t>(count));
  }
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    turns.units.push_back(
        {.first_run = static_cast<std::int32_t>(turns.runs.size()), .shift = grid.shift_of_unit[unit]});
    turns.runs.insert(turns.runs.end(), runs[unit].begin(), runs[unit].end());
  }
  turns.units.push_back({.first_run = static_cast<std::int32_t>(turns.runs.size()), .shift = 0});
  require(static_cast<std::int64_t>(turns.runs.size()) <= most, "a list of segments is too long for a GPU");
  turns.total = std::move(before);
  return turns;
}

bool whole_pieces(const WorkTables& by_k, std::int64_t rows, std::int64_t width) {
  const std::int64_t rows_of_cell = dq_cell_rows(width);
  std::vector<RowRange> units = units_of(by_k);
  std::erase_if(units, [](const RowRange& unit) { return unit.begin == unit.end; });
  for (const RowRange& unit : units)
    if (unit.begin % rows_of_cell != 0 || (unit.end % rows_of_cell != 0 && unit.end != rows)) return false;
  std::sort(units.begin(), units.end(),
            [](const RowRange& a, const RowRange& b) { return a.begin < b.begin; });
  std::int64_t covered = 0;
  for (const RowRange& unit : units) {
    if (unit.begin > covered) return false;
    covered = std::max(covered, unit.end);
  }
  return covered == rows;
}

int heads_that_take_turns(int fitting, std::int64_t key_heads, std::int64_t tiles, std::int64_t queue,
                          std::int64_t sms) {
  // The limit was found by measurement. 8 x 2048, 32 heads on 8 key heads of 64: 16 tiles queue, and groups
  // of 8 heads have 1.14 of the speed of groups of 16 (turns-of-heads; before: ordered.json). 1 x 8192, 8
  // heads on 1 of 64: 64 tiles queue, and groups of three (sums-64.json) have 0.95 of the speed of groups of
  // four (ordered.json).
  constexpr std::int64_t long_queue = 16;
  if (queue > long_queue) return fitting;
  const std::int64_t busy = tiles > 0 ? (sms + tiles - 1) / tiles : 1;
  return static_cast<int>(std::clamp<std::int64_t>(std::max(key_heads, busy), 1, std::max(fitting, 1)));
}

std::int64_t queueing_tiles(bool full, std::int64_t rows, std::int64_t tile_rows) {
  return full ? (rows + tile_rows - 1) / tile_rows : 0;
}

HeadGroups head_groups(int heads, int fitting, bool even, std::int32_t ending) {
  const int most = std::max(std::min(fitting, even || ending > 0 ? heads : heads / 2), 1);
  HeadGroups groups;
  if (heads == 0) return groups;
  groups.heads = static_cast<int>(equal_groups(heads, most));
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
