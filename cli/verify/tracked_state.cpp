// The steps of a state and of the variance of its error; see tracked_state.hpp.
#include "cli/verify/tracked_state.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "cli/verify/rounding_errors.hpp"

namespace cplab {
namespace {

// One row of `advance`.
void advance_row(double factor, double rows, double sums, double a, const double* __restrict b,
                 std::int64_t E, double* __restrict value, double* __restrict terms, double* __restrict peak,
                 double* __restrict variance) {
  const double factor2 = factor * factor;
  for (std::int64_t x = 0; x < E; ++x) {
    const double term = a * b[x], term2 = term * term;
    value[x] = factor * value[x] + term;
    const double value2 = value[x] * value[x];
    terms[x] = factor2 * terms[x] + term2;
    peak[x] = std::max(factor2 * peak[x], value2);
    variance[x] = factor2 * variance[x] + rows * term2 + sums * value2;
  }
}

void add_weighted(double weight, const double* __restrict from, double* __restrict into, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] += weight * from[i];
}

double sum_weighted(const double* weights, const double* values, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += weights[i] * weights[i] * values[i];
  return sum;
}

}  // namespace

TrackedState::TrackedState(std::int64_t D, std::int64_t E, const StateRoundings& roundings)
    : value(as_index(D * E)),
      terms(as_index(D * E)),
      peak(as_index(D * E)),
      variance(as_index(D * E)),
      D_(D),
      E_(E),
      roundings_(roundings) {}

// The variance of strength a_d b_x.
void TrackedState::add_factor_errors(double strength, const double* a, const double* b,
                                     const FactorErrors& errors) {
  if (errors.a == nullptr && errors.b == nullptr) return;
  for (std::int64_t d = 0; d < D_; ++d)
    for (std::int64_t x = 0; x < E_; ++x) {
      double more = 0;
      if (errors.a != nullptr) more += errors.a[d] * square(b[x]);
      if (errors.b != nullptr) more += square(a[d]) * errors.b[x];
      variance[as_index(d * E_ + x)] += square(strength) * more;
    }
}

void TrackedState::advance(double factor, double slope, const double* a, const double* b,
                           const FactorErrors& errors) {
  const double sums = roundings_.sums * (1 + square(slope));
  for (std::int64_t d = 0; d < D_; ++d) {
    const std::size_t row = as_index(d * E_);
    advance_row(factor, roundings_.rows, sums, a[d], b, E_, &value[row], &terms[row], &peak[row],
                &variance[row]);
  }
  add_factor_errors(1, a, b, errors);
}

TrackedState TrackedState::decayed(double factor) const {
  TrackedState later = *this;
  for (double& each : later.value) each *= factor;
  for (auto* squares : {&later.terms, &later.peak, &later.variance})
    for (double& each : *squares) each *= square(factor);
  return later;
}

void TrackedState::scale_rows(const double* log_factors) {
  for (std::int64_t d = 0; d < D_; ++d) {
    const double factor = std::exp(log_factors[d]);
    const double inexact = roundings_.sums * (1 + roundings_.block * square(log_factors[d]));
    for (std::size_t i = as_index(d * E_); i < as_index((d + 1) * E_); ++i) {
      value[i] *= factor;
      terms[i] *= square(factor);
      peak[i] *= square(factor);
      variance[i] = variance[i] * square(factor) + inexact * square(value[i]);
    }
  }
}

// An element of the new state is (1 - beta k_d^2) times its old self less beta k_d k_d' times the others of
// its column; variances go with the squares of these.
void TrackedState::reflect(const TokenTransition& token) {
  const double *k = token.k, *k_variance = token.k_variance;
  const double beta = token.beta;
  std::vector<double> of_key(as_index(k_variance == nullptr ? 0 : E_));  // sum of var(k_d) value^2
  for (std::int64_t d = 0; d < D_ && k_variance != nullptr; ++d)
    for (std::int64_t x = 0; x < E_; ++x)
      of_key[as_index(x)] += k_variance[d] * square(value[as_index(d * E_ + x)]);
  for (auto* sums : {&along_, &along_variance_, &along_terms_, &along_peak_, &along_value_})
    sums->assign(as_index(E_), 0);
  for (std::int64_t d = 0; d < D_; ++d) {
    const std::size_t row = as_index(d * E_);
    add_weighted(k[d], &value[row], along_.data(), E_);
    add_weighted(square(k[d]), &variance[row], along_variance_.data(), E_);
    add_weighted(square(k[d]), &terms[row], along_terms_.data(), E_);
    add_weighted(square(k[d]), &peak[row], along_peak_.data(), E_);
    for (std::int64_t x = 0; x < E_; ++x)
      along_value_[as_index(x)] += square(k[d] * value[row + as_index(x)]);
  }
  const double products = static_cast<double>(D_) / 2;
  for (std::int64_t d = 0; d < D_; ++d) {
    const double own = 1 - 2 * beta * square(k[d]), others = square(beta * k[d]);
    for (std::int64_t x = 0; x < E_; ++x) {
      const std::size_t i = as_index(d * E_ + x);
      const auto passed = [&](double old, double along) { return std::max(0.0, own * old + others * along); };
      const double before2 = square(value[i]);
      value[i] -= beta * k[d] * along_[as_index(x)];
      terms[i] = passed(terms[i], along_terms_[as_index(x)]);
      peak[i] = std::max(passed(peak[i], along_peak_[as_index(x)]), square(value[i]));
      const double along = (along_value_[as_index(x)] + square(along_[as_index(x)])) / 2;
      const double erased = 4 * along_value_[as_index(x)] + square(along_[as_index(x)]);
      variance[i] = passed(variance[i], along_variance_[as_index(x)]) +
                    roundings_.sums * (2 * before2 + square(value[i]) + others * products * along) +
                    roundings_.erased * others * erased;
      if (k_variance != nullptr)
        variance[i] +=
            square(beta) * k_variance[d] * square(along_[as_index(x)]) + others * of_key[as_index(x)];
    }
  }
}

void TrackedState::pass(const TokenTransition& token) {
  scale_rows(token.log_factors);
  if (token.k != nullptr) reflect(token);
}

void TrackedState::pass_transposed(const TokenTransition& token) {
  if (token.k != nullptr) reflect(token);
  scale_rows(token.log_factors);
}

void TrackedState::add_outer(double strength, const double* a, const double* b, const FactorErrors& errors) {
  for (std::int64_t d = 0; d < D_; ++d) {
    const std::size_t row = as_index(d * E_);
    advance_row(1, roundings_.rows + roundings_.sums, roundings_.sums, strength * a[d], b, E_, &value[row],
                &terms[row], &peak[row], &variance[row]);
  }
  add_factor_errors(strength, a, b, errors);
}

void TrackedState::over_rows(const double* reader, Sums& sums, const double* reader_variance) const {
  for (auto* each : {&sums.variance, &sums.peak, &sums.terms}) each->assign(as_index(E_), 0);
  for (std::int64_t d = 0; d < D_; ++d) {
    const double weight = square(reader[d]);
    add_weighted(weight, &variance[as_index(d * E_)], sums.variance.data(), E_);
    add_weighted(weight, &peak[as_index(d * E_)], sums.peak.data(), E_);
    add_weighted(weight, &terms[as_index(d * E_)], sums.terms.data(), E_);
    for (std::int64_t x = 0; x < E_ && reader_variance != nullptr; ++x)
      sums.variance[as_index(x)] += reader_variance[d] * square(value[as_index(d * E_ + x)]);
  }
}

void TrackedState::over_columns(const double* reader, Sums& sums, const double* reader_variance) const {
  for (auto* each : {&sums.variance, &sums.peak, &sums.terms}) each->assign(as_index(D_), 0);
  for (std::int64_t d = 0; d < D_; ++d) {
    sums.variance[as_index(d)] = sum_weighted(reader, &variance[as_index(d * E_)], E_);
    sums.peak[as_index(d)] = sum_weighted(reader, &peak[as_index(d * E_)], E_);
    sums.terms[as_index(d)] = sum_weighted(reader, &terms[as_index(d * E_)], E_);
    for (std::int64_t x = 0; x < E_ && reader_variance != nullptr; ++x)
      sums.variance[as_index(d)] += reader_variance[x] * square(value[as_index(d * E_ + x)]);
  }
}

}  // namespace cplab
