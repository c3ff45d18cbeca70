// Rows whose logits are more than scale q.k, for the model of expected errors; see pair_model.hpp.
#include "cli/verify/pair_model.hpp"

#include <algorithm>
#include <cmath>

#include "cli/verify/rounding_errors.hpp"

namespace cplab {

PairModel::PairModel(const reference::DynamicMaskShape& shape, std::span<const double> bias,
                     std::span<const double> dbias)
    : shape_(shape),
      bias_(bias),
      dbias_(dbias),
      slope_(static_cast<std::size_t>(shape.attention.N()), 1),
      slope_variance_(slope_.size(), 0) {}

std::size_t PairModel::index(std::int64_t j) const {
  return shape_.index_of(i_, h_, first_ + j);
}

void PairModel::begin_row(std::int64_t i, std::int64_t h, std::int64_t first) {
  i_ = i, h_ = h, first_ = 0;
  if (selects()) {
    std::vector<double> biases;
    for (std::int64_t j = 0; j < shape_.attention.N(); ++j) biases.push_back(bias(j));
    kept_ = reference::kept_keys(shape_.selection, biases);
  }
  first_ = first;
}

float PairModel::capped(std::int64_t j, double logit) const {
  const double z = logit + bias(j), cap = shape_.softcap;
  return static_cast<float>(cap > 0 ? cap * std::tanh(z / cap) : z);
}

double PairModel::more_variance(std::int64_t j, double logit, double of_p, double f2) {
  const double b = bias(j), z = logit + b, cap = shape_.softcap;
  double more = 4 * f2 * (square(z) + square(b));
  if (cap <= 0) return more;
  const double t = std::tanh(z / cap), slope = 1 - square(t);
  more += 4 * f2 * (square(z) + square(cap * t));
  slope_[at(j)] = slope;
  slope_variance_[at(j)] = 4 * square(t) * (square(slope) * (of_p + more) / square(cap) + 4 * f2);
  return more;
}

}  // namespace cplab
