// The body of products.cpp and products_avx2.cpp, which give CPLAB_PRODUCTS a name each: all that is compiled
// here for one set of instructions must have names of its own, Eigen's included, else the linker would keep
// one of them for both. They include Eigen, with products of every size as blocks: it would otherwise add up
// small ones in an order that depends on where the numbers lie.
#pragma once

#include "kernels/cpu/products.hpp"

namespace cplab::kernels::CPLAB_PRODUCTS {
namespace {

template <class T>
auto eigen(Block<const T> block) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Matrix, 0, Eigen::OuterStride<>>(block.data, block.rows, block.cols,
                                                           Eigen::OuterStride<>(block.stride));
}

template <class T>
auto eigen(Block<T> block) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<Matrix, 0, Eigen::OuterStride<>>(block.data, block.rows, block.cols,
                                                     Eigen::OuterStride<>(block.stride));
}

template <class T>
void store_with_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() = eigen(a) * eigen(b).transpose();
}
template <class T>
void add(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() += eigen(a) * eigen(b);
}
template <class T>
void add_of_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() += eigen(a).transpose() * eigen(b);
}

}  // namespace

extern const Products<float> of_floats;
extern const Products<double> of_doubles;
const Products<float> of_floats{store_with_transposed<float>, add<float>, add_of_transposed<float>};
const Products<double> of_doubles{store_with_transposed<double>, add<double>, add_of_transposed<double>};

}  // namespace cplab::kernels::CPLAB_PRODUCTS
