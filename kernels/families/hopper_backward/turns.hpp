// The order in which tiles of keys add to the dQ accumulator of the ordered Hopper backward. With a fixed
// order dq has the same bits in every run (FlashAttention's deterministic backward), and whoever comes first
// may store instead of add, so that nobody sets dq to 0 before. Plain host code.
//
// An example: a head with a causal mask, 4 tiles of keys, K0 .. K3, and 4 blocks of queries.
//
//             cell 0   cell 1   cell 2   cell 3
//     K0         0        0        0        0
//     K1                  1        1        1
//     K2                           2        2
//     K3                                    3
//     pieces     1        2        3        4
//
// The rows of dq of a head are cut into cells, each as high as a block of queries. What a tile adds to a cell
// is a piece. The numbers say how many pieces come before a piece in its cell, which is its turn. The kernel
// has a counter for each cell of each head (FlashAttention: a semaphore), and adds a piece when the counter
// has reached its turn.
//
// Tiles that walk over their queries from the last cell to the first all begin at cell 3, and queue there. In
// the opposite order of tiles, K3 first, the turns of cell 3 are 0 for K3 to 3 for K0, and each tile can
// begin at a cell in which it is the first: K0 at cell 0, K1 at cell 1 (HeadGroups).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/heads_together.hpp"
#include "kernels/tiles/params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// The height of a cell, by the head size of the kernel (of the call, if up to 64 and to 128): as many rows as
// a block of queries of the kernel has. The blocks of a tile begin where the tile's queries of a segment do,
// so a piece could lie in two cells. To keep nearly all pieces in one, cells begin anew with each sequence
// (or whatever rows segments share): the rows of a unit are shifted (TurnUnit) before they are divided by
// this height.
constexpr std::int32_t dq_cell_rows(std::int64_t width) {
  return width <= 64 ? 128 : 64;
}

// The turns of all pieces of a list of tiles of keys (key_tiles()); every head has the same.
//
// A tile may have several segments. A unit is one segment of one tile, and its pieces have no rows in common.
// Units are numbered tile after tile in the order of the list, and within a tile from its last segment to its
// first. In every cell the pieces of a unit come after all pieces of units with lower numbers. So a unit's
// turns in a cell follow from two numbers: how many pieces come before the unit's first one there, and how
// many it has itself. Neighbouring cells mostly have the same two, and are kept as one run (TurnRun): in the
// picture above K2 has the single run {cell 2, before 2, own 1}.
//
// For the opposite order there is no second table: what comes before a unit then is the cell's total less
// what comes before it as listed, less its own. K1 at cell 3: 4 - 1 - 1 = 2, the pieces of K3 and K2. The
// opposite order is that of all tiles of a head, or of those before the list's ending; the latter have their
// own totals.
struct DqTurns {
  std::vector<std::int32_t> unit_of_tile;  // the first unit of each tile with segments
  std::vector<TurnUnit> units;             // one more than there are: its first run is the end of the runs
  std::vector<TurnRun> runs;
  std::vector<std::int32_t> total;                // pieces of each cell
  std::vector<std::int32_t> total_before_ending;  // of these, pieces of tiles before WorkTables::ending
  std::int32_t cells = 0;                         // of a head
  bool even = true, full = false;                 // of the list: WorkTables::even, all_full()
  bool whole = false;                             // whole_pieces()
};

// Whether every cell of dq gets a piece, and every piece is a whole cell (the last cell may end with the
// rows). Then the first piece of a cell may be stored, and nobody needs to set dq to 0 before.
bool whole_pieces(const WorkTables& by_k, std::int64_t rows, std::int64_t width);

// How a launch takes heads so that tiles do not queue for their turns (docs/lab/hopper-attention.md, "In
// turn").
//
// Heads are taken in groups, side by side. A causal mask's tiles are listed longest first, and those of a
// head begin together, at the same cell: as listed they queue. In the opposite order each tile begins at a
// cell of its own, and comes to the cells of the tile before it later than that tile does. But then the
// longest tile begins last, which must not end the launch. So the last group of heads, or of that group the
// tiles of the list's ending, are walked as listed: they begin one after the other anyway, as earlier tiles
// end. All tiles of an even list take equally long, and are walked as listed.
struct HeadGroups {
  int heads = 1;           // how many heads a group has
  int opposite_heads = 0;  // the heads before this one are walked in the opposite order
  int opposite_tiles = 0;  // of other heads the tiles before this one are, too, and are taken first
};

// The size of groups of heads where the query heads of a key head have thread blocks of their own, and take
// turns to add to dk and dv too; `fitting` heads have their rows in the L2 cache together. A launch takes the
// first query head of every key head, then the second ones: in a group of as many heads as there are key
// heads no two finish a tile for the same dk and dv at the same time. The group is larger only where so few
// heads would leave multiprocessors idle, or where many tiles of a head queue for their turns at dq, which is
// less in large groups. tiles: of a head. queue: how many of them begin together (queueing_tiles()).
int heads_that_take_turns(int fitting, std::int64_t key_heads, std::int64_t tiles, std::int64_t queue,
                          std::int64_t sms);
// How many tiles of `tile_rows` keys begin at the same cell: with full masks alone (`full`) all tiles of the
// longest sequence, which has `rows` queries and about as many keys; else none are counted.
std::int64_t queueing_tiles(bool full, std::int64_t rows, std::int64_t tile_rows);

// The groups of `heads` heads, at most `fitting` in each, for a list that is `even` and has its `ending`
// there (WorkTables).
HeadGroups head_groups(int heads, int fitting, bool even, std::int32_t ending);

// The turns of a list of tiles that add to `rows` rows of dq, whose heads are `width` wide. Throws
// std::invalid_argument if there are more cells or runs than the kernel has numbers for.
DqTurns dq_turns(const WorkTables& by_k, std::int64_t rows, std::int64_t width);

// How many counters a call needs: for dq one for each cell of each head; for dk and dv one for each key head,
// each tile with segments, and each 16 of its rows.
constexpr std::int32_t dkv_turns_of_tile = 8;
std::int64_t dq_counters(const DqTurns& turns, std::int64_t heads);
std::int64_t dkv_counters(const DqTurns& turns, std::int64_t kv_heads);

}  // namespace cplab::kernels::cuda
