// In which order tiles of keys add to dq, where the sum is to have the same bits in every run, or dq is not
// to be set to 0 before. Plain host code.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/tiles/params.hpp"
#include "kernels/tiles/work_list.hpp"

namespace cplab::kernels::cuda {

// dq of one head is cut into cells of this many rows, by the head size: as many as a block of queries has,
// whose dq is a piece. Blocks begin where a tile's queries of a segment do. So that nearly all pieces lie in
// one cell and not in two, cells begin anew with each sequence, or whatever rows segments share: a unit's
// rows have a shift (TurnUnit), with which cells begin at multiples.
constexpr std::int32_t dq_cell_rows(std::int64_t width) {
  return width == 64 ? 128 : 64;
}

// The query rows of a segment that a tile of keys walks over (first_block() in parts/segment_blocks.cuh).
RowRange queries_of(const WorkTile& tile, const DeviceSegment& segment);

// Turns of a list of tiles of keys (key_tiles()); the same for every head. Its units are the segments of its
// tiles, in the order of the list and in a tile from its last segment to its first: in every cell an earlier
// unit adds all of its pieces before a later one adds any. Pieces of one unit have no rows in common. All
// tiles of a head, or those before the list's ending, may be walked in the opposite order, the last unit
// first: then of their pieces in a cell those come before a unit that are neither its own nor before it.
struct DqTurns {
  std::vector<std::int32_t> unit_of_tile;  // the first of each tile with segments, by place in the list
  std::vector<TurnUnit> units;             // each unit, and then one more: its first run is behind all
  std::vector<TurnRun> runs;
  std::vector<std::int32_t> total;                // pieces of each cell
  std::vector<std::int32_t> total_before_ending;  // those of the tiles before WorkTables::ending
  std::int32_t cells = 0;                         // of a head
  bool even = true, full = false;                 // of the list: WorkTables::even, all_full()
  bool whole = false;                             // whole_pieces()
};

// Whether every cell of dq gets a piece, and all pieces are whole cells (or as much of the last one as there
// is): then whoever comes first may store its piece, and nobody needs to set dq to 0 before.
bool whole_pieces(const WorkTables& by_k, std::int64_t rows, std::int64_t width);

// In which groups heads are walked, and what of them in the opposite order, so that tiles do not queue for
// their turns (docs/lab/hopper-attention.md, "In turn"). Tiles of a causal mask that begin together, longest
// first, do: all of a head begin at the same cell. In the opposite order they begin at cells of their own,
// and a tile comes to those of the one before it later than that one. But then the longest tile begins last,
// so what ends the launch is walked as listed: its tiles begin one after the other anyway, as those before
// them end. That is the last group of heads, or of it the list's ending. Tiles of even lists take equally
// long, and are all walked as listed.
struct HeadGroups {
  int heads = 1;           // of a group
  int opposite_heads = 0;  // heads before that one are walked in the opposite order
  int opposite_tiles = 0;  // of the other heads, tiles before this one are too, and are taken first
};

// How many of `all` heads are in a group of at most `most`, all groups of equal size: the longest tiles of a
// small last group would begin late, and end the launch alone. 1 x 6047 causal, 12 heads of 64: 1.19 of the
// speed of 10 and 2 heads.
std::int64_t equal_groups(std::int64_t all, std::int64_t most);

// How many heads are in a group, of `fitting` whose rows the cache holds, where the query heads of a key head
// are in different thread blocks and take turns to add to dk and dv too. A launch takes the first query head
// of every key head, then the second ones, so that no group of as many heads as there are key heads has two
// that are done with a tile at the same time, one of which would wait. More are taken only where these leave
// multiprocessors idle, or where many tiles of a head begin together and queue for turns at dq: of more heads
// side by side fewer do. tiles: of a head; queue: those that begin together (queueing_tiles()).
int heads_that_take_turns(int fitting, std::int64_t key_heads, std::int64_t tiles, std::int64_t queue,
                          std::int64_t sms);
// Of a list with full masks alone or not, whose longest sequence has that many rows of queries, and about as
// many of keys: how many tiles of `tile_rows` keys begin at the same cell.
std::int64_t queueing_tiles(bool full, std::int64_t rows, std::int64_t tile_rows);

// For that many heads, of which at most `fitting` are to be in a group, and a list that is even or not and
// has that ending (WorkTables).
HeadGroups head_groups(int heads, int fitting, bool even, std::int32_t ending);

// The turns of tiles that add to `rows` rows of dq, of heads of `width` columns. Throws
// std::invalid_argument if they are too many for the kernels' numbers.
DqTurns dq_turns(const WorkTables& by_k, std::int64_t rows, std::int64_t width);

// How many counters a call needs: one for each cell of each head. And for dk and dv, one for each tile with
// segments and key head, and for each 16 of its rows.
constexpr std::int32_t dkv_turns_of_tile = 8;
std::int64_t dq_counters(const DqTurns& turns, std::int64_t heads);
std::int64_t dkv_counters(const DqTurns& turns, std::int64_t kv_heads);

}  // namespace cplab::kernels::cuda
