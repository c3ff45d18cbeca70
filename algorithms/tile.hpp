// The work between one rank's queries and one rank's keys, from placement and mask alone: which rows take
// part, and the segments between them. Dense, packed, padded, zigzag halves, stripes and windows all come out
// of here, so an algorithm never speaks of halves or diagonals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/placement.hpp"
#include "algorithms/rows.hpp"
#include "plan/plan.hpp"

namespace cplab {

struct Tile {
  Rows q_rows, k_rows;            // local rows, by whole token runs
  std::vector<Segment> segments;  // in places of q_rows and k_rows
  bool empty() const { return segments.empty(); }
};

// The same between any two lists of rows, in their order: rows of several ranks in one buffer, rows at any
// stride. Where a list has rows at other strides of tokens than the other, its runs are cut into interleaved
// ones of equal strides, which reorders its rows.
struct ListTile {
  std::vector<RowRange> q_rows, k_rows;  // what the q and k views hold, in this order
  std::vector<Segment> segments;         // in places of q_rows and k_rows
  bool empty() const { return segments.empty(); }
};
ListTile tile_between(std::span<const TokenRun> q, std::span<const TokenRun> k, Window visible,
                      bool whole = false);

// `whole`: all rows of both sides take part, also runs without a live pair (so that a first store defines
// every row). Otherwise only token runs with at least one live pair.
Tile tile_between(const Placement&, Window visible, int q_position, int k_position, bool whole = false);

// The key rows of that tile alone.
Rows live_key_rows(const Placement&, Window visible, int q_position, int k_position);

}  // namespace cplab
