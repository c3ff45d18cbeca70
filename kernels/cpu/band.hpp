// Which keys of a segment a query row sees: always one interval, both ends of which only grow with the row.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/kernels.hpp"

namespace cplab::kernels {

// Keys begin .. end, empty if end <= begin.
struct KeyRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// Keys seen by query `i`, both counted inside the runs of the segment.
inline KeyRange visible_keys(const Segment& segment, std::int64_t i) {
  const std::int64_t diagonal = i + segment.offset;
  const std::int64_t first = segment.left < 0 ? 0 : diagonal - segment.left;
  const std::int64_t last = segment.right < 0 ? segment.k_count - 1 : diagonal + segment.right;
  return {std::clamp<std::int64_t>(first, 0, segment.k_count),
          std::clamp<std::int64_t>(last + 1, 0, segment.k_count)};
}

// The part of `range` inside keys begin .. begin + count, counted from begin.
inline KeyRange within(KeyRange range, std::int64_t begin, std::int64_t count) {
  return {std::clamp<std::int64_t>(range.begin - begin, 0, count),
          std::clamp<std::int64_t>(range.end - begin, 0, count)};
}

}  // namespace cplab::kernels
