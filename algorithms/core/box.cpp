// Boxes: views that are narrowed axis by axis.
#include "algorithms/core/builder.hpp"
#include "algorithms/core/builder_pools.hpp"

namespace cplab {

Box Box::slot(std::int64_t index) const {
  Box box = *this;
  box.view_.slot_begin = static_cast<std::int32_t>(index);
  box.view_.slot_end = static_cast<std::int32_t>(index + 1);
  return box;
}

Box Box::rows(const Rows& rows) const {
  Box box = *this;
  box.view_.ranges = builder_->intern_ranges((held_ ? rows.places_in(*held_) : rows).ranges());
  return box;
}

Box Box::holding(const Rows& of_larger) const {
  Box box = first_rows(of_larger.count());
  box.held_ = std::make_shared<const Rows>(of_larger);
  return box;
}

Box Box::rows(const std::vector<RowRange>& rows) const {
  Box box = *this;
  box.view_.ranges = builder_->intern_ranges(rows);
  return box;
}

Box Box::first_rows(std::int64_t count) const {
  return rows_at(0, count);
}

Box Box::rows_at(std::int64_t begin, std::int64_t count) const {
  Box box = *this;
  std::vector<RowRange>& list = builder_->pools_->range_list;
  list.clear();
  if (count > 0) list.push_back({begin, count, 1});
  box.view_.ranges = builder_->intern_ranges(list);
  return box;
}

Box Box::heads(std::int64_t begin, std::int64_t end) const {
  Box box = *this;
  box.view_.head_begin = static_cast<std::int32_t>(begin);
  box.view_.head_end = static_cast<std::int32_t>(end);
  return box;
}

Box Box::of_problem(HeadRange range) const {
  return heads(range.begin - first_head_, range.end - first_head_);
}

Box Box::numbered(std::int64_t first_head) const {
  Box box = *this;
  box.first_head_ = first_head;
  return box;
}

HeadRange Box::problem_heads() const {
  return {first_head_ + view_.head_begin, first_head_ + view_.head_end};
}

std::vector<RowRange> Box::row_list() const {
  const auto rows = builder_->plan_.rows_of(view_);
  return {rows.begin(), rows.end()};
}

Box Box::columns(std::int64_t begin, std::int64_t end) const {
  Box box = *this;
  box.view_.width_begin = static_cast<std::int32_t>(begin);
  box.view_.width_end = static_cast<std::int32_t>(end);
  return box;
}

}  // namespace cplab
