// How the builder fills its rank's pools; for builder.cpp and box.cpp alone.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "algorithms/core/builder.hpp"
#include "plan/interner.hpp"

namespace cplab {

struct Builder::Pools {
  Interner<RowRange> ranges;
  Interner<View> views;
  Interner<Access> accesses;
  Interner<Segment> segments;
  Interner<Chunk> chunks;
  Interner<Part> parts;
  Interner<std::uint32_t> edges;
  std::vector<RowRange> range_list;  // scratch, to spare allocations
  std::vector<View> view_list;
  std::vector<Access> access_list, written_list;
  std::vector<Part> part_list;

  // The buffers that dkv_sums() has declared. Tiles that follow each other on a lane share one.
  struct DkvSums {
    Lane lane;
    std::int64_t rows = 0;
    HeadRange heads;
    Layout layout = Layout::rows_first;
    Box box;
  };
  std::vector<DkvSums> dkv_sums;

  // What attach_segments() has found about a list that lay there, with the pairs of all of its segments.
  // Tiles are attended forward and backward.
  struct KnownSegments {
    Span span;
    double pairs = 0;
  };
  std::unordered_map<const Segment*, KnownSegments> known_segments;

  // That name, or with the lowest number from 2 on that no buffer has.
  std::string free_name(std::string_view name) {
    std::string free(name);
    const auto [known, is_new] = names.try_emplace(free, 1);
    if (is_new) return free;
    int& number = known->second;
    do {
      free = std::string(name) + "_" + std::to_string(++number);
    } while (!names.try_emplace(free, 1).second);
    return free;
  }
  std::unordered_map<std::string, int> names;  // that are taken, each with the highest number tried for it
};

}  // namespace cplab
