// Ranges of rows, row by row: for comparison with brute force.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab::testing {

inline std::vector<std::int64_t> row_list(const std::vector<RowRange>& ranges) {
  std::vector<std::int64_t> rows;
  for (const RowRange& range : ranges)
    for (std::int64_t i = 0; i < range.count; ++i) rows.push_back(range.begin + i * range.step);
  return rows;
}

}  // namespace cplab::testing
