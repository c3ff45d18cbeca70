// Sections of q: rows that some tiles of keys walk over and no others, such as a sequence of a batch. Of a
// section delta may be computed when its first tile comes near, and dq rounded behind its last one, while
// tiles of others are taken (kernels/cuda/hopper/backward_fused/dq_beside.cuh). Plain host code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/work/params.hpp"
#include "kernels/work/work_list.hpp"

namespace cplab::kernels::cuda {

// All rows between the first and the last that a tile of keys walks over.
RowRange hull_of(const WorkTile& tile, const std::vector<DeviceSegment>& segments);

// Rows of q, and the tiles that walk over them, as places in the list, ascending. Hulls of different ones do
// not meet.
struct TilesOfRows {
  RowRange rows;
  std::vector<std::size_t> tiles;
};
// Of all tiles with segments, by ascending rows.
std::vector<TilesOfRows> joined_hulls(const WorkTables& by_k);

// Sections in the order in which the list comes to them, and all of their rows cut into parts. Every row of q
// is in one section: those between two that tiles walk over are the first one's.
struct DqSections {
  std::vector<DqSection> all;
  std::vector<DqPart> parts;
  std::vector<std::int32_t> of_tile;  // by place in the list, of those with segments
};
// A part has 32 KB of dq of one head.
constexpr std::int32_t dq_part_rows(std::int64_t width) {
  return static_cast<std::int32_t>(8192 / width);
}
// Counts that the kernel keeps (EndCounters in kernels/cuda/hopper/backward_fused/dq_end.cuh).
constexpr std::int64_t end_counters(std::int64_t sections, std::int64_t query_heads) {
  return 2 * sections * query_heads + 4;
}
// rows: of q. part_rows: the most that a part has.
DqSections dq_sections(const WorkTables& by_k, std::int64_t rows, std::int32_t part_rows);

}  // namespace cplab::kernels::cuda
