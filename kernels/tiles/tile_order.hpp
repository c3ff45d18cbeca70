// In which order a launch takes its tiles: those that walk over the same rows one after the other, so that
// these come from memory once. Tiles of queries walk over keys, and tiles of keys over queries. Plain host
// code.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/tiles/tile_cuts.hpp"

namespace cplab::kernels::cuda {

// Segments in groups that share no key, or, where tiles are of keys, no query: sequences of a batch, say.
struct WalkedGroups {
  std::vector<std::int32_t> of_segment;  // from 0 on, without gaps
  std::int32_t count = 0;
  std::int32_t most_rows = 0;  // of a group, from its first to its last; 0 without segments
};
WalkedGroups walked_groups(std::span<const DeviceSegment> segments, bool by_key = false);

// Whether all tiles with segments take about the same time, tile n times[n]: the longest at most 1.1 times
// the shortest.
bool are_alike(const WorkTables& work, std::span<const double> times);

// Orders the tiles of a list, of which tile n takes times[n]; they may be sorted by anything before. Tiles of
// a group are neighbours, the longest first, and groups follow each other by their longest tile. A tile that
// walks over rows of several groups is of the one of which it walks over most. Only the last groups are one,
// which ends the launch (WorkTables::ending): as many as it takes so that the multiprocessors have more to do
// than their longest tile, and none is left alone with that. Tiles without segments come last.
//
// A list of a single group is left as it is, and so is one whose tiles take equally long: 64 x 256 full, head
// size 128, was 6 % slower in this order. Returns whether it was ordered: its neighbours then take unequally
// long, so they are not to be dealt out at a fixed stride, and `even` becomes false.
bool order_by_walked_rows(WorkTables& work, std::span<const double> times, const TileWalk& walk,
                          bool by_key = false);

}  // namespace cplab::kernels::cuda
