// The work between one rank's queries and one rank's keys, from placement and mask alone: which rows take
// part, and the segments between them. Dense, packed, padded, zigzag halves, stripes and windows all come out
// of here, so an algorithm never speaks of halves or diagonals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/core/placement.hpp"
#include "algorithms/core/rows.hpp"
#include "plan/plan.hpp"
#include "plan/visible.hpp"

namespace cplab {

// Rows that lie in their buffer in the order of their runs, all runs at one stride: one placement's ranks.
struct Tile {
  Rows q_rows, k_rows;            // queries by whole runs, keys as far as some of the queries see them
  std::vector<Segment> segments;  // in places of q_rows and k_rows
  bool empty() const { return segments.empty(); }
};
// Which rows take part. live: the query runs with at least one live pair, and of every key run the rows from
// the first to the last live one. queries: all query rows, so that a store defines every row of out; keys:
// all key rows, so that it defines every row of dK and dV; all: all rows of both sides.
enum class Take : std::uint8_t { live, queries, keys, all };
Tile row_tile(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible,
              Take take = Take::live);

// Those rows of the runs, which are of consecutive rows, that lie in `rows`, as runs.
std::vector<TokenRun> runs_within(std::span<const TokenRun>, const Rows& rows);

// The rows of the runs that are tokens.
std::vector<RowRange> token_rows(std::span<const TokenRun>);

// The positions of these rows in their sequences, in their order: of key rows also the columns that they have
// of a bias with a column for each key of a sequence.
std::vector<RowRange> positions(std::span<const TokenRun>, const Rows& rows);

// The key rows of the tile of live rows, without its segments; and whether there are any.
Rows live_key_rows(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible);
// The same for `unseen`, from which those runs are then taken away whose tokens q all sees: an algorithm that
// asks many members, one after the other, what they see asks the later ones about few runs.
Rows take_seen(std::span<const TokenRun> q, std::vector<TokenRun>& unseen, const Visible& visible);
// Of the key runs those rows that a query sees, as runs; of runs at other strides than the queries' whole
// runs.
std::vector<TokenRun> seen_runs(std::span<const TokenRun> q, std::span<const TokenRun> k,
                                const Visible& visible);
bool any_live(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible);

// The work between any two lists of rows, in their order: rows of several ranks in one buffer, rows at any
// stride. Where a list has rows at other strides of tokens than the other, its runs are cut into interleaved
// ones of equal strides, which reorders its rows.
struct ListTile {
  std::vector<RowRange> q_rows, k_rows;  // what the q and k views hold, in this order
  std::vector<Segment> segments;         // in places of q_rows and k_rows
  bool empty() const { return segments.empty(); }
};
ListTile tile_between(std::span<const TokenRun> q, std::span<const TokenRun> k, const Visible& visible,
                      Take take = Take::live);

}  // namespace cplab
