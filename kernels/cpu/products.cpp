// See row_matrix.hpp.
#include <Eigen/Core>

#include "kernels/cpu/row_matrix.hpp"

namespace cplab::kernels {
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

}  // namespace

template <class T>
void store_product_with_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() = eigen(a) * eigen(b).transpose();
}
template <class T>
void add_product(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() += eigen(a) * eigen(b);
}
template <class T>
void add_product_of_transposed(Block<const T> a, Block<const T> b, Block<T> into) {
  eigen(into).noalias() += eigen(a).transpose() * eigen(b);
}

using Floats = Block<const float>;
using Doubles = Block<const double>;
template void store_product_with_transposed(Floats, Floats, Block<float>);
template void add_product(Floats, Floats, Block<float>);
template void add_product_of_transposed(Floats, Floats, Block<float>);
template void store_product_with_transposed(Doubles, Doubles, Block<double>);
template void add_product(Doubles, Doubles, Block<double>);
template void add_product_of_transposed(Doubles, Doubles, Block<double>);

}  // namespace cplab::kernels
