// The table of the CPU tiles of linear attention, and what they share.
#include "kernels/cpu/linear_tiles.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <vector>

#include "kernels/cpu/linear_parts.hpp"

namespace cplab::kernels {
namespace {

template <class T>
auto eigen(const LinearMatrix<T>& m) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  return Eigen::Map<const Matrix>(m.data(), m.rows(), m.cols());
}

template <class T, class Product>
LinearMatrix<T> evaluated(const Product& expression) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  LinearMatrix<T> values(expression.rows(), expression.cols());
  Eigen::Map<Matrix>(values.data(), values.rows(), values.cols()).noalias() = expression;
  return values;
}

}  // namespace

template <class T>
LinearMatrix<T> product(const LinearMatrix<T>& a, const LinearMatrix<T>& b) {
  return evaluated<T>(eigen(a) * eigen(b));
}
template <class T>
LinearMatrix<T> product_with_transposed(const LinearMatrix<T>& a, const LinearMatrix<T>& b) {
  return evaluated<T>(eigen(a) * eigen(b).transpose());
}
template <class T>
LinearMatrix<T> product_of_transposed(const LinearMatrix<T>& a, const LinearMatrix<T>& b) {
  return evaluated<T>(eigen(a).transpose() * eigen(b));
}

using Floats = LinearMatrix<float>;
using Doubles = LinearMatrix<double>;
template Floats product(const Floats&, const Floats&);
template Floats product_with_transposed(const Floats&, const Floats&);
template Floats product_of_transposed(const Floats&, const Floats&);
template Doubles product(const Doubles&, const Doubles&);
template Doubles product_with_transposed(const Doubles&, const Doubles&);
template Doubles product_of_transposed(const Doubles&, const Doubles&);

const LinearTiles& cpu_linear_tiles() {
  static const LinearTiles tiles{linear_local_cpu, linear_local_backward_cpu, linear_state_cpu,
                                 linear_scan_cpu,  linear_combine_cpu,        linear_inter_cpu};
  return tiles;
}

void clear_other_rows(const View& into, std::span<const Chunk> chunks) {
  std::vector<char> in_a_chunk(static_cast<std::size_t>(into.rows));
  for (const Chunk& c : chunks) std::fill_n(in_a_chunk.begin() + c.row, c.count, char{1});
  const ViewRows rows(into);
  const std::vector<float> zeros(static_cast<std::size_t>(into.width));
  for (std::int64_t row = 0; row < into.rows; ++row) {
    if (in_a_chunk[static_cast<std::size_t>(row)] != 0) continue;
    for (std::int64_t head = 0; head < into.heads; ++head) rows.store(row, head, zeros.data());
  }
}

}  // namespace cplab::kernels
