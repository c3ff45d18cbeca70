// Sets of local rows as ascending, disjoint, non-touching ranges of step 1.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

class Rows {
 public:
  Rows() = default;
  static Rows range(std::int64_t begin, std::int64_t count);

  // Appends rows behind all present ones.
  void append(std::int64_t begin, std::int64_t count);
  Rows united(const Rows& other) const;
  Rows minus(const Rows& other) const;
  Rows common(const Rows& other) const;

  // The places that these rows have among those of `all`, counted from 0. Throws std::logic_error unless it
  // has all of them.
  Rows places_in(const Rows& all) const;

  bool empty() const { return ranges_.empty(); }
  std::int64_t count() const;
  const std::vector<RowRange>& ranges() const { return ranges_; }
  bool operator==(const Rows&) const = default;

 private:
  std::vector<RowRange> ranges_;
};

}  // namespace cplab
