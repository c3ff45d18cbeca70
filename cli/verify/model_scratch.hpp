// Room for the blocks that one worker of the model of expected errors (tolerance.cpp) multiplies.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/verify/pair_model.hpp"
#include "cli/verify/rounding_errors.hpp"
#include "reference/products.hpp"

namespace cplab {

class ModelScratch {
 public:
  // What lies where. Weights come two for each pair: of the terms and of the variance.
  enum Place : std::uint8_t {
    of_p,  // scores first
    of_dp,
    of_q,
    of_k,
    of_v,
    of_dout,
    of_squares,
    of_more_squares,
    of_weights,
    of_more_weights,
    of_mean_weights,
    of_sums,
    of_more_sums,
    of_means,
    of_made,
    places
  };

  reference::Rows<float> room(Place place, std::int64_t rows, std::int64_t cols) {
    std::vector<float>& values = values_[place];
    if (std::ssize(values) < rows * cols) values.resize(as_index(rows * cols));
    return {values.data(), rows, cols, cols};
  }
  reference::Rows<float> zeros(Place place, std::int64_t rows, std::int64_t cols) {
    const reference::Rows<float> block = room(place, rows, cols);
    std::fill_n(block.data, rows * cols, 0.0f);
    return block;
  }
  reference::Rows<float> times(Place place, reference::Rows<const double> of, double factor) {
    return made_of(place, of, [&](double x) { return factor * x; });
  }
  // (x / unit)^2
  reference::Rows<float> squares(Place place, reference::Rows<const double> of, double unit) {
    const double factor = 1 / unit;
    return made_of(place, of, [&](double x) { return square(factor * x); });
  }

  std::vector<float> of_pair, slope, slope_variance;  // of the current row
  std::optional<PairModel> pairs;

  // Of a bias table, by row at hand and column: sums over the row's keys, of ds, of p dx/dz, of the variances
  // that each pair has by itself, and of squares of terms. And of all rows that the worker had, by head and
  // column.
  struct OfColumn {
    double ds = 0, p = 0, variance = 0, terms = 0;
  };
  std::vector<OfColumn> of_columns;
  std::vector<double> table_variance, table_terms;

 private:
  template <class Function>
  reference::Rows<float> made_of(Place place, reference::Rows<const double> of, Function function) {
    const reference::Rows<float> into = room(place, of.rows, of.cols);
    for (std::int64_t i = 0; i < of.rows; ++i) {
      const double* const from = of.row(i);
      float* const row = into.row(i);
      for (std::int64_t x = 0; x < of.cols; ++x) row[x] = static_cast<float>(function(from[x]));
    }
    return into;
  }

  std::array<std::vector<float>, places> values_;
};

}  // namespace cplab
