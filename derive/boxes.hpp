// Whether views and ranges of rows have anything in common.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab {

inline bool disjoint(std::int32_t a_begin, std::int32_t a_end, std::int32_t b_begin, std::int32_t b_end) {
  return a_end <= b_begin || b_end <= a_begin;
}

inline std::int64_t last_row(const RowRange& range) {
  return range.begin + (range.count - 1) * range.step;
}

// Two strided ranges share a row.
inline bool ranges_meet(const RowRange& a, const RowRange& b) {
  if (a.count == 0 || b.count == 0 || last_row(a) < b.begin || last_row(b) < a.begin) return false;
  if (a.step == 1 && b.step == 1) return true;
  const RowRange& few = a.count <= b.count ? a : b;
  const RowRange& many = a.count <= b.count ? b : a;
  for (std::int64_t i = 0; i < few.count; ++i) {
    const std::int64_t from = few.begin + i * few.step - many.begin;
    if (from >= 0 && from % many.step == 0 && from / many.step < many.count) return true;
  }
  return false;
}

inline bool boxes_disjoint(const View& a, const View& b) {
  return disjoint(a.slot_begin, a.slot_end, b.slot_begin, b.slot_end) ||
         disjoint(a.head_begin, a.head_end, b.head_begin, b.head_end) ||
         disjoint(a.width_begin, a.width_end, b.width_begin, b.width_end);
}

}  // namespace cplab
