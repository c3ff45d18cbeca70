// In which order tiles of keys add to dq, where the sum is to have the same bits in every run. Plain host
// code.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/work/params.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels::cuda {

// dq of one head is cut into cells of this many rows, by the head size: as many as a block of queries has,
// whose dq is a piece. Blocks begin where a segment's queries do, so that a piece lies in one cell or two.
constexpr std::int32_t dq_cell_rows(std::int64_t width) {
  return width == 64 ? 128 : 64;
}

// Turns of a list of tiles of keys (key_tiles()); the same for every head. Its units are the segments of its
// tiles, in the order of the list and in a tile in that of its segments: in every cell an earlier unit adds
// all of its pieces before a later one adds any. Pieces of one unit have no rows in common.
struct DqTurns {
  std::vector<std::int32_t> unit_of_tile;  // the first of each tile with segments, by place in the list
  std::vector<std::int32_t> first_run;     // of each unit, and the number of runs
  std::vector<TurnRun> runs;
  std::int32_t cells = 0;  // of a head
};

// The turns of tiles that add to `rows` rows of dq, of heads of `width` columns. Throws
// std::invalid_argument if they are too many for the kernels' numbers.
DqTurns dq_turns(const WorkTables& by_k, std::int64_t rows, std::int64_t width);

// How many counters a call needs: one for each cell of each head. And for dk and dv, one for each tile with
// segments and key head, and for each 16 of its rows.
constexpr std::int32_t dkv_turns_of_tile = 8;
std::int64_t dq_counters(const DqTurns& turns, std::int64_t heads);
std::int64_t dkv_counters(const DqTurns& turns, std::int64_t kv_heads);

}  // namespace cplab::kernels::cuda
