// What the CPU tiles of linear attention share: powers of a decay, states in and out of
// memory, rows scaled and rounded as tensor-core kernels do, and writes of rows.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/cpu/row_matrix.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/linear.hpp"

namespace cplab::kernels {

// Tokens whose pairs are computed together; what is further apart goes through a state.
inline constexpr std::int64_t token_block = 64;
// Rows of D, or columns of E, that ChunkWork::sliced works on at a time.
inline constexpr std::int64_t slice_width = 64;

// lambda^n = exp(-slope n), each from its exponent.
template <class T>
class Powers {
 public:
  explicit Powers(double slope) : slope_(slope) {
    for (std::int64_t n = 0; n <= token_block; ++n) near_.push_back(power(n));
  }
  T operator()(std::int64_t n) const {
    return 0 <= n && n <= token_block ? near_[static_cast<std::size_t>(n)] : power(n);
  }

 private:
  T power(std::int64_t n) const { return static_cast<T>(std::exp(-slope_ * static_cast<double>(n))); }

  double slope_;
  std::vector<T> near_;
};

// Columns [begin, begin + count) of `width`: all of them, or one slice after the other.
struct Slices {
  std::int64_t width;
  bool sliced;
  std::int64_t count() const { return sliced ? (width + slice_width - 1) / slice_width : 1; }
  std::int64_t begin(std::int64_t s) const { return sliced ? s * slice_width : 0; }
  std::int64_t size(std::int64_t s) const { return sliced ? std::min(slice_width, width - begin(s)) : width; }
};

template <class T>
RowMatrix<T> rounded_elements(RowMatrix<T> values, DType dtype) {
  round_elements(values.data(), values.size(), dtype);
  return values;
}

// Row t times lambda^exponent(t).
template <class T, class Exponent>
void decay_rows(RowMatrix<T>& rows, const Powers<T>& powers, Exponent exponent) {
  for (std::int64_t t = 0; t < rows.rows(); ++t) {
    const T power = powers(exponent(t));
    for (std::int64_t x = 0; x < rows.cols(); ++x) rows.row(t)[x] *= power;
  }
}

// From the products of row t with row u of one block to their share in an output: times lambda^(t - u) where
// u <= t, exactly 0 elsewhere, and rounded before the second product as tensor-core kernels do.
template <class T>
void decay_pairs(RowMatrix<T>& pairs, const Powers<T>& powers, DType dtype) {
  for (std::int64_t t = 0; t < pairs.rows(); ++t) {
    T* line = pairs.row(t);
    for (std::int64_t u = 0; u <= t; ++u) line[u] *= powers(t - u);
    std::fill(line + t + 1, line + pairs.cols(), T{0});
  }
  round_elements(pairs.data(), pairs.size(), dtype);
}

// A state of keys from the left edge of a block to its right one: key t is decayed by the n - t tokens up to
// there, and rounded so as an operand of the product is.
template <class T>
void advance_keys(RowMatrix<T>& state, RowMatrix<T> k, const RowMatrix<T>& v, const Powers<T>& powers,
                  DType dtype) {
  const std::int64_t n = k.rows();
  decay_rows(k, powers, [n](std::int64_t t) { return n - t; });
  state *= powers(n);
  state += product_of_transposed(rounded_elements(std::move(k), dtype), v);
}

// A state of queries from the right edge of a block to its left one.
template <class T>
void advance_queries(RowMatrix<T>& state, RowMatrix<T> q, const RowMatrix<T>& dout, const Powers<T>& powers,
                     DType dtype) {
  const std::int64_t n = q.rows();
  decay_rows(q, powers, [](std::int64_t t) { return t; });
  state *= powers(n);
  state += product_of_transposed(rounded_elements(std::move(q), dtype), dout);
}

template <class T>
RowMatrix<T> gather_rows(const ViewRows& rows, std::int64_t first, std::int64_t count, std::int64_t head) {
  RowMatrix<T> values(count, rows.width());
  rows.gather(first, count, head, values.data());
  return values;
}

// States of an operand that may be absent.
template <class T>
class States {
 public:
  States(const std::optional<View>& view, std::int64_t D) : D_(D) {
    if (view) rows_.emplace(*view);
  }

  bool given() const { return rows_.has_value(); }
  RowMatrix<T> load(std::int64_t state, std::int64_t head) const {
    RowMatrix<T> values(D_, rows_->width());
    rows_->gather(state * D_, D_, head, values.data());
    return values;
  }
  void store(std::int64_t state, std::int64_t head, const RowMatrix<T>& values) const {
    for (std::int64_t d = 0; d < D_; ++d) rows_->store(state * D_ + d, head, values.row(d));
  }
  // Final states that nobody names are stored as well: nothing leaves there.
  void clear(std::int64_t head) const {
    if (!given()) return;
    const std::vector<T> zeros(static_cast<std::size_t>(rows_->width()));
    for (std::int64_t row = 0; row < rows_->view().rows; ++row) rows_->store(row, head, zeros.data());
  }

 private:
  std::int64_t D_;
  std::optional<ViewRows> rows_;
};

// What enters a chunk at one edge: its own state there, and that of the edge of its piece, decayed by the
// tokens between. No value where neither is.
template <class T>
std::optional<RowMatrix<T>> entering(const States<T>& own, std::int64_t state, const States<T>& edges,
                                     std::int64_t edge, T power, std::int64_t head) {
  std::optional<RowMatrix<T>> sum;
  if (own.given() && state >= 0) sum = own.load(state, head);
  if (edges.given() && edge >= 0) {
    RowMatrix<T> passed = edges.load(edge, head);
    passed *= power;
    if (sum) passed += *sum;
    sum = std::move(passed);
  }
  return sum;
}

// Rows row .. row + values.rows() of one head become `values`, or that is added to them.
template <class T>
void write_rows(const ViewRows& into, std::int64_t row, std::int64_t head, RowMatrix<T>& values,
                Write write) {
  std::vector<T> held(static_cast<std::size_t>(into.width()));
  for (std::int64_t i = 0; i < values.rows(); ++i) {
    T* line = values.row(i);
    if (write == Write::add) {
      into.load(row + i, head, held.data());
      for (std::size_t x = 0; x < held.size(); ++x) line[x] += held[x];
    }
    into.store(row + i, head, line);
  }
}

// Rows in no chunk become 0.
void clear_other_rows(const View& into, std::span<const Chunk> chunks);

}  // namespace cplab::kernels
