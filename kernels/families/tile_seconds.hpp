// What predictions of several families share: how long tiles of attention take together, what memory and
// row-wise kernels take, and the rows of a call as a kernel counts them. Plain host code.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <vector>

#include "kernels/families/variants.hpp"
#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {

constexpr double us = 1e-6;

// Costs of Hopper's tiles are of a GPU at its highest clock; those of the kernels for every architecture are
// not, and what is compared for a FLOP is under load.
constexpr double under_load = 1.13;

// Of a head size, on the line through the costs at 64 and 128.
double at_head_size(double head_size, double at_64, double at_128);

// us for a FLOP of the fused backward for Hopper, on one multiprocessor that is never idle.
double hopper_backward_flop_us(const HeadSizes& sizes, const Rates& rates);

// Tiles of every height cost the same.
TileCosts same_costs(const Rates& rates, double of_128_keys);

// us for what a call reads and writes once, in rows that its segments name, at the bandwidth of memory; for
// q, k, v and dout of a backward alone.
double memory_us(const Attend& call, const Rates& rates);
double memory_us(const AttendBackward& call, const Rates& rates);
double inputs_us(const AttendBackward& call, const Rates& rates);
// us for every view once, at the bandwidth of row-wise kernels.
double rowwise_us(std::initializer_list<const View*> views, const Rates& rates);

// What is not in the list of tiles and their costs.
struct TileExtras {
  double rows_us = 0;        // what every tile takes for its results, where they go row by row
  std::int64_t block = 128;  // tile_times()
  double heads_walked = 1;   // how many query heads a tile of keys walks over, with one epilogue for all
  std::optional<double> beyond = {};  // blocks of 128 rows beside its own; empty: TileCosts::beyond_keys
  double least_us = 0;                // what every tile takes at least
  double partial_us = 0;              // what the last block of a tile's queries takes longer if it is partial
  double dkv_turns_us = 0;            // what a short tile waits for its turns to add to dk and dv
  double dkv_hidden_us = 1;           // a tile so long waits for half of that
  bool longest_first = false;         // as if the list began with the tiles that take longest
};

// us that each tile with segments takes (of tiles of queries: each tile).
std::vector<double> tiles_us(const WorkTables& work, const TileCosts& costs, bool by_key,
                             const TileExtras& extras);
// us until the last tile of a launch is done.
double makespan_us(const WorkTables& work, const TileCosts& costs, const TileWalk& walk, bool by_key,
                   const TileExtras& extras = {});

// us for casts behind a backward launch (casts_dq(), casts_dkv()). `asked`: with the rounded views.
double casts_us(const ChosenBackward& chosen, const AttendBackward& asked, const AttendBackward& launched,
                const Rates& rates);

// The rows of a call and its segments as a variant counts them: kernels for Hopper, which read by TMA, in row
// spaces, all others as compact rows.
struct CallRows {
  CallRows(const Attend& call, bool in_spaces);
  CallRows(const AttendBackward& call, bool in_spaces);

  std::optional<RowSpaces> spaces;
  std::int64_t q, k;
  std::vector<RowRange> q_ranges, k_ranges;
  std::vector<DeviceSegment> live;
};

// The tiles of queries, and of keys, that a backward call has, to be cut.
TileProblem query_problem(const CallRows& rows, const AttendBackward& call);
TileProblem key_problem(const CallRows& rows, const AttendBackward& call);
// Tiles of a backward kernel, in which a tile of fewer rows takes as long.
WorkTables backward_tiles(const TileProblem& problem, std::int64_t heads, std::int64_t height,
                          const VariantOptions& options);
// Both lists, cut every variant.tile_rows where that is fastest.
ChosenBackward backward_cut(const AttendBackwardVariant& variant, const CallRows& rows,
                            const TileProblem& by_k, const AttendBackward& call,
                            const VariantOptions& options);

// Forward tiles of kernels that take them in the order of the list, every variant.tile_rows.
ChosenForward even_tiles(const AttendVariant& variant, const Attend& call);

}  // namespace cplab::kernels::cuda
