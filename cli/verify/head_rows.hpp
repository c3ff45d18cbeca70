// The rows of one head of a tensor [tokens, heads, width], and those of a block of tokens that a later one is
// multiplied with.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "cli/verify/rounding_errors.hpp"

namespace cplab {

inline double dot(const double* a, const double* b, std::int64_t count) {
  return std::inner_product(a, a + count, b, 0.0);
}

// The rows of one head, one after the other.
struct HeadRows {
  std::int64_t width = 0;
  std::vector<double> values;
  const double* operator[](std::int64_t t) const { return &values[as_index(t * width)]; }
  const double* maybe(std::int64_t t) const { return values.empty() ? nullptr : (*this)[t]; }
};

inline HeadRows rows_of(std::span<const double> tensor, std::int64_t heads, std::int64_t head,
                        std::int64_t width) {
  HeadRows rows{width, {}};
  for (std::size_t first = as_index(head * width); first < tensor.size(); first += as_index(heads * width))
    rows.values.insert(rows.values.end(), tensor.begin() + static_cast<std::ptrdiff_t>(first),
                       tensor.begin() + static_cast<std::ptrdiff_t>(first) + width);
  return rows;
}

// One gate as that of every column.
inline HeadRows of_columns(HeadRows gates, std::int64_t columns) {
  if (gates.width == columns) return gates;
  HeadRows all{columns, {}};
  for (const double gate : gates.values) all.values.insert(all.values.end(), as_index(columns), gate);
  return all;
}

// f^2 L^2 / 3 of every token, L the sum of |g|, of the column where it is largest, over the tokens of a block
// up to it.
inline std::vector<double> exponent_variances(const HeadRows& logs, std::int64_t tokens, std::int64_t block,
                                              double f2) {
  std::vector<double> variances, largest;
  double sum = 0;
  for (std::int64_t t = 0; t < tokens; ++t) {
    largest.push_back(-*std::min_element(logs[t], logs[t] + logs.width));
    sum += largest.back();
    if (t >= block) sum -= largest[as_index(t - block)];
    variances.push_back(f2 * square(sum) / 3);
  }
  return variances;
}

// Rows of the tokens of a block, those scaled that are as wide as keys: of keys with what they write, or of
// queries with dout.
struct BlockRow {
  std::vector<double> keys, values;
};

class BlockRows {
 public:
  explicit BlockRows(std::int64_t most) : most_(most) {}
  void scale(const double* log_factors) {
    for (BlockRow& row : rows_)
      for (std::size_t d = 0; d < row.keys.size(); ++d) row.keys[d] *= std::exp(log_factors[d]);
  }
  void add(BlockRow row) {
    rows_.push_back(std::move(row));
    if (std::ssize(rows_) > most_) rows_.pop_front();
  }
  // Adds the squares of the pairs of a token with these, times the squares of rows: to `values` by what is as
  // wide as keys, to `keys` by what is as wide as values, where it is given.
  void add_pairs(const double* of_keys, const double* of_values, std::vector<double>& values,
                 std::vector<double>& keys) const {
    for (const BlockRow& row : rows_) {
      const double over_keys = square(dot(of_keys, row.keys.data(), std::ssize(row.keys)));
      for (std::size_t x = 0; x < row.values.size(); ++x) values[x] += over_keys * square(row.values[x]);
      if (of_values == nullptr) continue;
      const double over_values = square(dot(of_values, row.values.data(), std::ssize(row.values)));
      for (std::size_t d = 0; d < row.keys.size(); ++d) keys[d] += over_values * square(row.keys[d]);
    }
  }
  // Calls visit(rows after it, the square of what add_pairs weighs with) for each of these.
  template <class Visit>
  void each_pair(const double* of_keys, const double* of_values, Visit visit) const {
    std::int64_t after = std::ssize(rows_);
    for (const BlockRow& row : rows_)
      visit(--after, square(dot(of_keys, row.keys.data(), std::ssize(row.keys)) *
                            dot(of_values, row.values.data(), std::ssize(row.values))));
  }

 private:
  std::deque<BlockRow> rows_;
  std::int64_t most_;
};

}  // namespace cplab
