// A product as its kernels take it, and where its numbers lie. Device code.
#pragma once

#include <cstdint>

#include "kernels/families/parts/element.cuh"
#include "kernels/tiles/params.hpp"

namespace cplab::kernels::cuda {

// For each head lines of columns that follow each other in memory: rows of a view from `first_column` on, or,
// where line_columns is above 0, the one row that weights have for each head, so many columns a line.
struct Lines {
  DeviceView view;
  std::int32_t first_column = 0, line_columns = 0;
  bool one_head = false;  // the same for all heads

  __device__ std::int64_t at(std::int32_t line, std::int32_t head) const {
    const std::int32_t of = one_head ? 0 : head;
    if (line_columns > 0) return row_offset(view, 0, of) + static_cast<std::int64_t>(line) * line_columns;
    return row_offset(view, line, of) + first_column;
  }
};

// into[m, n] = sum over `depth` terms of a[m, .] b[., n], with n < columns.
struct Product {
  Lines a, b, into;
  std::int32_t depth = 0, columns = 0;
};

// Two products for each head, of `rows` rows; or, where `sums`, one result of the first that is the sum of
// both over all heads.
struct Products {
  Product of[2];
  std::int32_t rows = 0, heads = 0;
  bool sums = false;
  Write write = Write::store;

  // Thread blocks are rows x columns x results.
  __device__ std::int32_t first_head() const { return sums ? 0 : static_cast<std::int32_t>(blockIdx.z) / 2; }
  __device__ std::int32_t end_head() const { return sums ? heads : first_head() + 1; }
  __device__ int first_product() const { return sums ? 0 : static_cast<int>(blockIdx.z) % 2; }
  __device__ int end_product() const { return sums ? 2 : first_product() + 1; }
};

// The terms of a thread block's sums, some at a time: of one head and one product after the other.
struct Walk {
  std::int32_t head, first = 0;
  int product;

  __device__ explicit Walk(const Products& p) : head(p.first_head()), product(p.first_product()) {
    skip_empty(p);
  }
  __device__ bool done(const Products& p) const { return head >= p.end_head(); }
  __device__ void advance(const Products& p, std::int32_t terms) {
    first += terms;
    skip_empty(p);
  }

 private:
  __device__ void skip_empty(const Products& p) {
    while (head < p.end_head() && first >= p.of[product].depth) {
      first = 0;
      if (++product < p.end_product()) continue;
      product = p.first_product();
      ++head;
    }
  }
};

template <class T>
__device__ inline void store_sum(const Products& p, const Lines& into, std::int32_t row, std::int32_t column,
                                 T value) {
  const std::int64_t at = into.at(row, p.first_head()) + column;
  if (p.write == Write::add) value += load_element_as<T>(into.view.data, into.view.dtype, at);
  store_element_as<T>(value, into.view.data, into.view.dtype, at);
}

}  // namespace cplab::kernels::cuda
