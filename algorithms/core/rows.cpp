// Set algebra on ascending row ranges; all operations are linear merges.
#include "algorithms/core/rows.hpp"

#include <algorithm>
#include <stdexcept>

namespace cplab {

Rows Rows::range(std::int64_t begin, std::int64_t count) {
  Rows rows;
  rows.append(begin, count);
  return rows;
}

void Rows::append(std::int64_t begin, std::int64_t count) {
  if (count <= 0) return;
  if (!ranges_.empty() && ranges_.back().begin + ranges_.back().count == begin) {
    ranges_.back().count += count;
  } else {
    ranges_.push_back({begin, count, 1});
  }
}

Rows Rows::united(const Rows& other) const {
  Rows result;
  std::size_t a = 0, b = 0;
  std::int64_t end = 0;  // rows below it are dealt with
  while (a < ranges_.size() || b < other.ranges_.size()) {
    const bool left =
        b == other.ranges_.size() || (a < ranges_.size() && ranges_[a].begin <= other.ranges_[b].begin);
    const RowRange& next = left ? ranges_[a++] : other.ranges_[b++];
    const std::int64_t begin = std::max(next.begin, end);
    result.append(begin, next.begin + next.count - begin);
    end = std::max(end, next.begin + next.count);
  }
  return result;
}

Rows Rows::common(const Rows& other) const {
  Rows result;
  std::size_t a = 0, b = 0;
  while (a < ranges_.size() && b < other.ranges_.size()) {
    const std::int64_t a_end = ranges_[a].begin + ranges_[a].count;
    const std::int64_t b_end = other.ranges_[b].begin + other.ranges_[b].count;
    const std::int64_t begin = std::max(ranges_[a].begin, other.ranges_[b].begin);
    result.append(begin, std::min(a_end, b_end) - begin);
    (a_end <= b_end ? a : b)++;
  }
  return result;
}

Rows Rows::minus(const Rows& other) const {
  Rows result;
  std::size_t b = 0;
  for (const RowRange& range : ranges_) {
    std::int64_t begin = range.begin;
    const std::int64_t end = range.begin + range.count;
    while (b < other.ranges_.size() && other.ranges_[b].begin + other.ranges_[b].count <= begin) ++b;
    for (std::size_t i = b; i < other.ranges_.size() && other.ranges_[i].begin < end; ++i) {
      result.append(begin, other.ranges_[i].begin - begin);
      begin = std::max(begin, other.ranges_[i].begin + other.ranges_[i].count);
    }
    result.append(begin, end - begin);
  }
  return result;
}

Rows Rows::places_in(const Rows& all) const {
  Rows places;
  std::int64_t before = 0;
  auto next = ranges_.begin();
  for (const RowRange& range : all.ranges_) {
    for (; next != ranges_.end() && next->begin < range.begin + range.count; ++next) {
      if (next->begin < range.begin || next->begin + next->count > range.begin + range.count) break;
      places.append(before + next->begin - range.begin, next->count);
    }
    before += range.count;
  }
  if (next != ranges_.end()) throw std::logic_error("rows are asked for that are not there");
  return places;
}

std::int64_t Rows::count() const {
  std::int64_t n = 0;
  for (const RowRange& range : ranges_) n += range.count;
  return n;
}

}  // namespace cplab
