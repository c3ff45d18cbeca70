// Small matrices of the CPU tiles, row by row, and their products.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace cplab::kernels {

// Rows of somebody's matrix, `stride` elements apart.
template <class T>
struct Block {
  T* data;
  std::int64_t rows, cols, stride;

  T* row(std::int64_t i) const { return data + i * stride; }
  operator Block<const T>() const requires(!std::is_const_v<T>) { return {data, rows, cols, stride}; }
};

// All 0 at first. T is float or double.
template <class T>
class RowMatrix {
 public:
  RowMatrix(std::int64_t rows, std::int64_t cols, T value = 0)
      : rows_(rows), cols_(cols), values_(static_cast<std::size_t>(rows * cols), value) {}

  std::int64_t rows() const { return rows_; }
  std::int64_t cols() const { return cols_; }
  std::int64_t size() const { return rows_ * cols_; }
  T* data() { return values_.data(); }
  const T* data() const { return values_.data(); }
  T* row(std::int64_t i) { return values_.data() + i * cols_; }
  const T* row(std::int64_t i) const { return values_.data() + i * cols_; }
  void set_zero() { std::fill(values_.begin(), values_.end(), T{0}); }

  // The first `cols` elements of `rows` rows, from row `first` on.
  Block<T> block(std::int64_t first, std::int64_t rows, std::int64_t cols) {
    return {row(first), rows, cols, cols_};
  }
  Block<const T> block(std::int64_t first, std::int64_t rows, std::int64_t cols) const {
    return {row(first), rows, cols, cols_};
  }
  Block<T> rows_from(std::int64_t first, std::int64_t rows) { return block(first, rows, cols_); }
  Block<const T> rows_from(std::int64_t first, std::int64_t rows) const { return block(first, rows, cols_); }
  Block<T> all() { return rows_from(0, rows_); }
  Block<const T> all() const { return rows_from(0, rows_); }

  RowMatrix& operator+=(const RowMatrix& other) {
    for (std::size_t x = 0; x < values_.size(); ++x) values_[x] += other.values_[x];
    return *this;
  }
  RowMatrix& operator*=(T factor) {
    for (T& value : values_) value *= factor;
    return *this;
  }
  RowMatrix columns(std::int64_t first, std::int64_t count) const {
    RowMatrix part(rows_, count);
    for (std::int64_t i = 0; i < rows_; ++i) std::copy_n(row(i) + first, count, part.row(i));
    return part;
  }
  RowMatrix middle_rows(std::int64_t first, std::int64_t count) const {
    RowMatrix part(count, cols_);
    std::copy_n(row(first), count * cols_, part.data());
    return part;
  }

 private:
  std::int64_t rows_, cols_;
  std::vector<T> values_;
};

// Products with sums in T. They are Eigen's and compiled in one file, for float and double: its headers in
// every file that multiplies took minutes of a build. into = a b^T
template <class T>
void store_product_with_transposed(Block<const T> a, Block<const T> b, Block<T> into);
// into += a b
template <class T>
void add_product(Block<const T> a, Block<const T> b, Block<T> into);
// into += a^T b
template <class T>
void add_product_of_transposed(Block<const T> a, Block<const T> b, Block<T> into);

// a b, a b^T and a^T b
template <class T>
RowMatrix<T> product(const RowMatrix<T>& a, const RowMatrix<T>& b) {
  RowMatrix<T> result(a.rows(), b.cols());
  add_product<T>(a.all(), b.all(), result.all());
  return result;
}
template <class T>
RowMatrix<T> product_with_transposed(const RowMatrix<T>& a, const RowMatrix<T>& b) {
  RowMatrix<T> result(a.rows(), b.rows());
  store_product_with_transposed<T>(a.all(), b.all(), result.all());
  return result;
}
template <class T>
RowMatrix<T> product_of_transposed(const RowMatrix<T>& a, const RowMatrix<T>& b) {
  RowMatrix<T> result(a.cols(), b.cols());
  add_product_of_transposed<T>(a.all(), b.all(), result.all());
  return result;
}

template <class T>
bool all_finite(Block<const T> block) {
  for (std::int64_t i = 0; i < block.rows; ++i) {
    // x - x is 0, or NaN where x is NaN or infinite; a sum of such has no branch.
    T sum = 0;
    for (std::int64_t j = 0; j < block.cols; ++j) sum += block.row(i)[j] - block.row(i)[j];
    if (sum != T{0}) return false;
  }
  return true;
}

// row += factor * values
template <class T>
void add_scaled(T* row, T factor, const T* values, std::int64_t count) {
  for (std::int64_t x = 0; x < count; ++x) row[x] += factor * values[x];
}

}  // namespace cplab::kernels
