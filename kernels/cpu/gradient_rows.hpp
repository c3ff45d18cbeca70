// Sums of gradients in the tiles of attention, rounded once when they are written.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/row_matrix.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

// A gradient of all rows of one head, and which rows anything was added to.
template <class T>
struct Gradient {
  Gradient(std::int64_t rows, std::int64_t width) : sum(rows, width), seen(static_cast<std::size_t>(rows)) {}

  void clear() {
    sum.set_zero();
    std::fill(seen.begin(), seen.end(), char{0});
  }

  void mark(std::int64_t begin, std::int64_t end) {
    std::fill(seen.begin() + begin, seen.begin() + end, char{1});
  }

  // Rows without a contribution become 0 (store) or are not touched (add).
  void write_to(const ViewRows& into, std::int64_t head, Write write, T factor) {
    std::vector<T> held(static_cast<std::size_t>(into.width()));
    for (std::int64_t row = 0; row < into.view().rows; ++row) {
      const bool contributes = seen[static_cast<std::size_t>(row)] != 0;
      if (!contributes && write == Write::add) continue;
      T* values = sum.row(row);
      for (std::int64_t x = 0; x < into.width(); ++x) values[x] *= factor;
      if (write == Write::add) {
        into.load(row, head, held.data());
        for (std::size_t x = 0; x < held.size(); ++x) values[x] += held[x];
      }
      into.store(row, head, values);
    }
  }

  RowMatrix<T> sum;
  std::vector<char> seen;
};

}  // namespace cplab::kernels
