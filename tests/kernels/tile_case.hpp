// A tile to be tested (tile_cases.hpp): its shape, its segments and how its rows lie.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/oracle.hpp"
#include "tests/kernels/random_tile.hpp"

namespace cplab::testing {

struct TileCase {
  const char* kind;
  Sizes sizes;
  std::vector<Segment> segments;
  DType nominal, out;
  TileLayouts layouts = {};
  std::int64_t shift = 0;  // of all data, in elements
  bool rising = false;     // keys far longer than those before them
  bool positive = false;   // the scale, as kernels for Hopper want it
  bool apart = false;      // segments have no rows in common
  std::uint64_t seed = 0;
  std::int64_t number = 0;

  std::string text() const {
    const auto& [nq, nk, H, G, D, E] = sizes;
    return std::string(kind) + ", --seed " + std::to_string(seed) + " --case " + std::to_string(number) +
           ", nq=" + std::to_string(nq) + " nk=" + std::to_string(nk) + " H=" + std::to_string(H) +
           " G=" + std::to_string(G) + " D=" + std::to_string(D) + " E=" + std::to_string(E) + " " +
           name_of(nominal) + " to " + name_of(out) + ", " + std::to_string(segments.size()) +
           " segments, runs " + std::to_string(layouts.q_runs.size()) + " " +
           std::to_string(layouts.k_runs.size()) + ", shift " + std::to_string(shift);
  }
  TileDTypes dtypes(std::int64_t merges = 0) const {
    return {.nominal = nominal,
            .out = out,
            .lse = wide(nominal),
            .merges = merges,
            .part_roundoff = unit_roundoff(out)};
  }
};

class Report;
struct TileRunner;

// All that a device computes of the tile, forward and backward, against brute force.
void check_tile(Report& report, const TileRunner& runner, const TileCase& tile, std::mt19937& generator);

// Of `tile`, which has dtypes and heads, cases that say how their rows lie.
//
// What a step of a ring attends in a zigzag placement: of every sequence of a packed list, the later half of
// the queries, or all, sees the earlier half of the keys, or all; halves lie at a distance of two.
TileCase half_sequences(TileCase tile, std::mt19937& generator);

// 250 query rows in three runs. The second ends at row 250 of memory: where out is compact that is its end,
// but not that of the run's rows in it, behind which lie rows of longer tiles, which are stored before.
TileCase misleading_end(TileCase tile, std::mt19937& generator);

// Four causal sequences, of which the warpgroups of a tile meet unequal parts. With one multiprocessor, which
// on_one_multiprocessor() gives this number of rows, there are enough tiles for the forward of Hopper to go
// out of turn, also where a part of the sequences is merged.
TileCase uneven_warpgroups(TileCase tile, DType nominal);

// Sequences of whole blocks of queries, with either mask, of head size 64, whose dq the backward of Hopper
// may round itself, by chains.
TileCase whole_blocks(TileCase tile, std::mt19937& generator);

// Sequences all of whose queries see all keys, of head size 64 or 128: in the ordered backward of Hopper all
// tiles of keys of a head begin at the same queries.
TileCase full_sequences(TileCase tile, DType nominal, std::int64_t width, std::mt19937& generator);

}  // namespace cplab::testing
