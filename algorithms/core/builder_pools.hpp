// How the builder fills its rank's pools; for builder.cpp and box.cpp alone.
#pragma once

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
};

}  // namespace cplab
