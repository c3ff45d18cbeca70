// The body of products.cpp and products_avx2.cpp, which give CPLAB_PRODUCTS a name each: all that is compiled
// here for one set of instructions must have names of its own, Eigen's included, else the linker would keep
// one of them for both. They include Eigen, with products of every size as blocks: it would otherwise add up
// small ones in an order that depends on where the numbers lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/products.hpp"

namespace cplab::reference {
namespace {

template <class T>
auto eigen(Rows<const T> block) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(block.data, block.rows, block.cols,
                                                           Eigen::OuterStride<>(block.stride));
}

template <class T>
auto eigen_result(Rows<T> block) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(block.data, block.rows, block.cols,
                                                     Eigen::OuterStride<>(block.stride));
}

template <class T>
void store_with_transposed(Rows<const T> a, Rows<const T> b, Rows<T> into) {
  eigen_result(into).noalias() = eigen(a) * eigen(b).transpose();
}
template <class T>
void add(Rows<const T> a, Rows<const T> b, Rows<T> into) {
  eigen_result(into).noalias() += eigen(a) * eigen(b);
}
template <class T>
void add_of_transposed(Rows<const T> a, Rows<const T> b, Rows<T> into) {
  eigen_result(into).noalias() += eigen(a).transpose() * eigen(b);
}
template <class T>
T exponentials(T* x, std::int64_t count, T shift) {
  // In pieces of one size, wherever they lie, for the same reason.
  constexpr std::int64_t piece = 8;
  using Piece = Eigen::Array<T, piece, 1>;
  Piece sum = Piece::Zero();
  std::int64_t j = 0;
  for (; j + piece <= count; j += piece) {
    Eigen::Map<Piece> values(x + j);
    values = (values - shift).exp();
    sum += values;
  }
  T total = sum.sum();
  if (j == count) return total;
  Piece rest = Piece::Constant(shift);
  std::copy_n(x + j, count - j, rest.data());
  rest = (rest - shift).exp().eval();
  std::copy_n(rest.data(), count - j, x + j);
  for (std::int64_t i = 0; i < count - j; ++i) total += rest(i);
  return total;
}
void float_exponentials(float* x, std::int64_t count, float shift) {
  exponentials(x, count, shift);
}

}  // namespace

extern const Products CPLAB_PRODUCTS;
const Products CPLAB_PRODUCTS{
    .store_with_transposed = store_with_transposed<double>,
    .store_floats_with_transposed = store_with_transposed<float>,
    .add = add<double>,
    .add_of_transposed = add_of_transposed<double>,
    .add_floats = add<float>,
    .add_floats_of_transposed = add_of_transposed<float>,
    .exponentials = exponentials<double>,
    .float_exponentials = float_exponentials,
};

}  // namespace cplab::reference
