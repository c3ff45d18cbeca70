// Expected rounding errors; see tolerance.hpp for the model.
#include "cli/verify/tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "cli/verify/pair_model.hpp"
#include "cli/verify/rounding_errors.hpp"

namespace cplab {

namespace {

// a += p x, b += q x. These sums over all pairs are where the time goes: restrict lets them be vectorised.
void add_scaled(double p, double* __restrict a, double q, double* __restrict b, const double* __restrict x,
                std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    a[i] += p * x[i];
    b[i] += q * x[i];
  }
}

template <class T>
void add_scaled(T p, T* __restrict a, const T* __restrict x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) a[i] += p * x[i];
}

void squares(const double* x, double* into, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) into[i] = x[i] * x[i];
}

class Model {
 public:
  Model(DType dtype, const PlanRoundings& roundings, const reference::AttentionShape& shape,
        std::span<const double> q, std::span<const double> k, std::span<const double> v,
        std::span<const double> dout, const reference::AttentionResult& right, PairModel* pairs = nullptr)
      : dtype_(dtype),
        roundings_(roundings),
        shape_(shape),
        q_(q),
        k_(k),
        v_(v),
        dout_(dout),
        right_(right),
        pairs_(pairs),
        e2_(cplab::rounding_variance(dtype)),
        f2_(std::min(e2_, cplab::rounding_variance(DType::fp32))),
        tiny2_(square(underflow(dtype))),
        keys_(static_cast<double>(shape.S)) {
    if (shape.left >= 0 && shape.right >= 0) {
      keys_ = std::min(keys_, static_cast<double>(shape.left + shape.right + 1));
    }
  }

  ExpectedErrors run(const std::function<void(std::int64_t)>& after_head) {
    const std::int64_t G = shape_.G, per_group = shape_.H / G;
    make_room(errors_.out, shape_.H, shape_.E);
    make_room(errors_.lse, shape_.H, 1);
    errors_.max_logit.variance.assign(as_index(shape_.H), 0);
    errors_.max_logit.terms.assign(as_index(shape_.H), 0);
    if (!dout_.empty()) {
      make_room(errors_.dq, shape_.H, shape_.D);
      make_room(errors_.dk, G, shape_.D);
      make_room(errors_.dv, G, shape_.E);
    }
    if (pairs_ && !dout_.empty()) {
      errors_.dbias.variance.assign(pairs_->dbias().size(), 0);
      errors_.dbias.terms.assign(pairs_->dbias().size(), 0);
    }
    p_.resize(as_index(shape_.S));
    dp_.resize(as_index(shape_.S));
    pair_variance_.resize(as_index(shape_.S));
    for (std::int64_t g = 0; g < G; ++g) {
      prepare_keys(g);
      for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h) {
        for (std::int64_t i = 0; i < shape_.S; ++i) row(i, h, g);
        finish_max_logit(h);
        if (after_head) after_head(h + 1);
      }
    }
    if (!dout_.empty()) {
      finish(errors_.dk, roundings_.dkv, right_.dk);
      finish(errors_.dv, roundings_.dkv, right_.dv);
      finish_dbias();
    }
    if (dtype_ == DType::fp64) replace_by_fp64();
    return std::move(errors_);
  }

 private:
  // Of rounding a value with this square to nominal; what is next to nothing becomes 0.
  double rounding_variance(double square_of_value) const {
    return e2_ * square_of_value + std::min(square_of_value, tiny2_);
  }

  void make_room(ExpectedError& error, std::int64_t heads, std::int64_t width) const {
    error.variance.assign(as_index(shape_.S * heads * width), 0);
    error.terms.assign(error.variance.size(), 0);
  }

  // K and V of one head, also with the tokens side by side, so that a row of products is a sum of rows.
  void prepare_keys(std::int64_t g) {
    const std::int64_t S = shape_.S, G = shape_.G, D = shape_.D, E = shape_.E;
    k_columns_.resize(as_index(D * S));
    v_columns_.resize(as_index(E * S));
    k_squares_.resize(as_index(D * S));
    v_squares_.resize(as_index(E * S));
    k_mean_square_.assign(as_index(D), 0);
    v_norm2_.assign(as_index(S), 0);
    k_norm2_.assign(as_index(S), 0);
    for (std::int64_t j = 0; j < S; ++j) {
      squares(&k_[as_index((j * G + g) * D)], &k_squares_[as_index(j * D)], D);
      squares(&v_[as_index((j * G + g) * E)], &v_squares_[as_index(j * E)], E);
      for (std::int64_t d = 0; d < D; ++d) {
        const double key = k_[as_index((j * G + g) * D + d)];
        k_columns_[as_index(d * S + j)] = static_cast<float>(key);
        k_mean_square_[as_index(d)] += square(key) / static_cast<double>(S);
        k_norm2_[as_index(j)] += square(key);
      }
      for (std::int64_t x = 0; x < E; ++x) {
        const double value = v_[as_index((j * G + g) * E + x)];
        v_columns_[as_index(x * S + j)] = static_cast<float>(value);
        v_norm2_[as_index(j)] += square(value);
      }
    }
  }

  // into[j] = sum_x vector[x] columns[x][begin + j]: products of one row with all its keys.
  void multiply(const double* vector, double factor, std::int64_t size, const std::vector<float>& columns,
                std::vector<float>& into) const {
    std::fill_n(into.begin(), count_, 0.0f);
    for (std::int64_t x = 0; x < size; ++x)
      add_scaled(static_cast<float>(factor * vector[x]), into.data(),
                 &columns[as_index(x * shape_.S + begin_)], count_);
  }

  void row(std::int64_t i, std::int64_t h, std::int64_t g) {
    const std::int64_t S = shape_.S, D = shape_.D;
    begin_ = shape_.left < 0 ? 0 : std::max<std::int64_t>(0, i - shape_.left);
    count_ = (shape_.right < 0 ? S : std::min(S, i + shape_.right + 1)) - begin_;
    const double* query = &q_[as_index((i * shape_.H + h) * D)];
    const double lse = right_.lse[as_index(h * S + i)];
    multiply(query, shape_.scale, D, k_columns_, p_);

    double t2 = 0;
    for (std::int64_t d = 0; d < D; ++d) t2 += square(shape_.scale * query[d]) * k_mean_square_[as_index(d)];
    if (lse == -std::numeric_limits<double>::infinity()) return;  // no pair counts, nothing is rounded
    if (pairs_) pairs_->begin_row(i, h, begin_);
    const double products = static_cast<double>(D) / 2, tiles = roundings_.out.tile_count;
    sum_variance_ = f2_ * keys_ / 3;
    for (std::int64_t j = 0; j < count_; ++j) {
      if (pairs_ && !pairs_->counts(j)) {
        p_[as_index(j)] = 0, pair_variance_[as_index(j)] = 0;
        continue;
      }
      const float logit = p_[as_index(j)];
      p_[as_index(j)] = std::exp((pairs_ ? pairs_->capped(j, logit) : logit) - static_cast<float>(lse));
      pair_variance_[as_index(j)] = f2_ * (products * (t2 + square(logit)) / 2 + 32 * t2 + 2);
      if (pairs_)
        pair_variance_[as_index(j)] += pairs_->more_variance(j, logit, pair_variance_[as_index(j)], f2_);
      sum_variance_ += pair_variance_[as_index(j)] * square(p_[as_index(j)]);
    }
    lse_variance_ = f2_ * square(lse);
    merge_variance_ = f2_ * tiles * (4 + 2 * square(lse));
    const double q_norm2 = std::inner_product(query, query + D, query, 0.0);
    for (std::int64_t j = begin_; j < begin_ + count_; ++j)
      logit_bound2_ = std::max(logit_bound2_, q_norm2 * k_norm2_[as_index(j)]);
    const double lse_terms = 1 + t2 + square(lse);
    errors_.lse.terms[as_index(h * S + i)] = lse_terms;
    errors_.lse.variance[as_index(h * S + i)] = f2_ * (products + keys_ / 3 + 32 + 4 * tiles) * lse_terms;
    out_row(i, h);
    if (!dout_.empty()) gradient_row(i, h, g);
  }

  void finish_max_logit(std::int64_t h) {
    const double bound2 = square(shape_.scale) * std::exchange(logit_bound2_, 0.0);
    const double unit = std::min(unit_roundoff(dtype_), 0x1p-24);
    errors_.max_logit.terms[as_index(h)] = bound2;
    errors_.max_logit.variance[as_index(h)] =
        square((static_cast<double>(shape_.D) + 2) * unit / 6) * bound2 + tiny2_;
  }

  void out_row(std::int64_t i, std::int64_t h) {
    const std::int64_t E = shape_.E;
    const std::size_t first = as_index((i * shape_.H + h) * E);
    double* terms = &errors_.out.terms[first];
    double* variance = &errors_.out.variance[first];
    for (std::int64_t j = 0; j < count_; ++j) {
      const double p2 = square(p_[as_index(j)]);
      add_scaled(p2, terms, rounding_variance(p2) + pair_variance_[as_index(j)] * p2, variance,
                 &v_squares_[as_index((begin_ + j) * E)], E);
    }
    for (std::int64_t x = 0; x < E; ++x) {
      const double out = right_.out[first + as_index(x)];
      variance[x] += e2_ * result_variance(roundings_.out, terms[x], out) + sum_variance_ * square(out) +
                     (merge_variance_ + f2_ * keys_ / 2) * (terms[x] + square(out)) / 2 + tiny2_;
    }
  }

  // Variance of delta_i = sum_e dout_ie out_ie, formed from the stored out; the error of the sum of p is one
  // for all of out_i.
  double delta_variance(const double* dout, const double* out, const double* out_variance,
                        double delta) const {
    const double sum = f2_ * static_cast<double>(shape_.E) / 4;
    double variance = (sum + f2_ + sum_variance_) * square(delta);
    for (std::int64_t x = 0; x < shape_.E; ++x) {
      variance += square(dout[x]) * (out_variance[x] + (sum - sum_variance_) * square(out[x]));
    }
    return variance;
  }

  void gradient_row(std::int64_t i, std::int64_t h, std::int64_t g) {
    const std::int64_t D = shape_.D, E = shape_.E;
    const std::size_t q_first = as_index((i * shape_.H + h) * D), o_first = as_index((i * shape_.H + h) * E);
    const double *query = &q_[q_first], *dout = &dout_[o_first], *out = &right_.out[o_first];
    const double delta = std::inner_product(dout, dout + E, out, 0.0);
    const double dout_norm2 = std::inner_product(dout, dout + E, dout, 0.0);
    const double of_delta = delta_variance(dout, out, &errors_.out.variance[o_first], delta);
    const double s2 = square(shape_.scale), of_sum = f2_ * keys_ / 4, of_key_sum = of_sum * group();
    const double of_row = sum_variance_ + lse_variance_ + merge_variance_;
    multiply(dout, 1, E, v_columns_, dp_);

    double* dq_terms = &errors_.dq.terms[q_first];
    double* dq_variance = &errors_.dq.variance[q_first];
    mean_key_.assign(as_index(D), 0);
    q_squares_.resize(as_index(D));
    dout_squares_.resize(as_index(E));
    squares(query, q_squares_.data(), D);
    squares(dout, dout_squares_.data(), E);
    for (std::int64_t j = 0; j < count_; ++j) {
      const std::int64_t key = begin_ + j;
      const double p = p_[as_index(j)], p2 = square(p), dp = dp_[as_index(j)],
                   slope = pairs_ ? pairs_->slope(j) : 1, slope2 = square(slope);
      const double ds2 = p2 * square(dp - delta) * slope2;
      const double of_slope = p2 * square(dp - delta) * (pairs_ ? pairs_->slope_variance(j) : 0);
      const std::size_t k_first = as_index((key * shape_.G + g) * D),
                        v_first = as_index((key * shape_.G + g) * E);
      // Before the cancellation of dP and delta; and what becomes of the roundings. dP is a sum of E
      // products: its error is measured by them, not by what they add up to.
      const double term = s2 * p2 * slope2 * (square(dp) + square(delta));
      const double products =
          slope2 * f2_ / 4 * (dout_norm2 * v_norm2_[as_index(key)] + static_cast<double>(E) * square(dp));
      const double of_pair = pair_variance_[as_index(j)] + lse_variance_;
      const double pair = s2 * (rounding_variance(ds2) + (of_pair + of_sum) * ds2 + p2 * products + of_slope);
      const double of_delta_here = p2 * slope2 * of_delta;
      if (pairs_ && pairs_->has_bias() && p > 0) {
        const std::size_t b = pairs_->index(j);
        errors_.dbias.terms[b] += term / s2;
        errors_.dbias.variance[b] +=
            (of_pair + of_row + of_key_sum) * ds2 + p2 * products + of_slope + of_delta_here;
      }
      add_scaled(p * slope, mean_key_.data(), &k_[k_first], D);
      add_scaled(term, dq_terms, pair, dq_variance, &k_squares_[as_index(key * D)], D);
      add_scaled(term, &errors_.dk.terms[k_first],
                 pair + s2 * ((of_row + of_key_sum - of_sum) * ds2 + of_delta_here),
                 &errors_.dk.variance[k_first], q_squares_.data(), D);
      add_scaled(p2, &errors_.dv.terms[v_first], rounding_variance(p2) + (of_pair + of_row + of_key_sum) * p2,
                 &errors_.dv.variance[v_first], dout_squares_.data(), E);
    }
    for (std::int64_t d = 0; d < D; ++d) {
      const double dq = right_.dq[q_first + as_index(d)];
      dq_variance[d] += s2 * of_delta * square(mean_key_[as_index(d)]) + (of_row + of_sum) * square(dq) +
                        tiny2_ + e2_ * result_variance(roundings_.dq, dq_terms[d], dq);
    }
  }

  // Query heads of a key head.
  double group() const { return static_cast<double>(shape_.H) / static_cast<double>(shape_.G); }

  // Adds what rounds the sum over the queries and over the heads of a group.
  void finish(ExpectedError& error, const Roundings& roundings, const std::vector<double>& right) const {
    for (std::size_t i = 0; i < right.size(); ++i) {
      error.variance[i] += e2_ * result_variance(roundings, error.terms[i], right[i]) +
                           f2_ * keys_ * group() / 4 * square(right[i]) + tiny2_;
    }
  }

  void finish_dbias() {
    if (!pairs_ || !pairs_->has_bias()) return;
    if (pairs_->of_keys()) {
      // One number a key: a slice may have few, and nearly all of its size may be one key's that every rank's
      // queries see.
      for (std::size_t i = 0; i < errors_.dbias.variance.size(); ++i)
        errors_.dbias.variance[i] += e2_ * single_sum_variance(roundings_.dkv, pairs_->dbias()[i]);
      return finish(errors_.dbias, roundings_.dkv, {pairs_->dbias().begin(), pairs_->dbias().end()});
    }
    for (std::size_t i = 0; i < errors_.dbias.variance.size(); ++i)
      errors_.dbias.variance[i] += e2_ * square(pairs_->dbias()[i]) + tiny2_;
  }

  // fp64 is held to a flat relative error that any summation order keeps by orders of magnitude.
  void replace_by_fp64() {
    hold_to_fp64(right_.out, errors_.out);
    hold_to_fp64(right_.lse, errors_.lse);
    hold_to_fp64(right_.dq, errors_.dq);
    hold_to_fp64(right_.dk, errors_.dk);
    hold_to_fp64(right_.dv, errors_.dv);
    hold_to_fp64(right_.max_logit, errors_.max_logit);
    if (pairs_) hold_to_fp64(pairs_->dbias(), errors_.dbias);
  }

  DType dtype_;
  const PlanRoundings& roundings_;
  const reference::AttentionShape& shape_;
  std::span<const double> q_, k_, v_, dout_;
  const reference::AttentionResult& right_;
  PairModel* pairs_;  // null: softmax attention
  double e2_, f2_, tiny2_, keys_;
  // Of the current key/value head: [D,S] and [E,S], mean k_d^2 over the keys, ||v_j||^2, ||k_j||^2.
  std::vector<float> k_columns_, v_columns_;
  std::vector<double> k_squares_, v_squares_;  // [S,D], [S,E]
  std::vector<double> k_mean_square_, v_norm2_, k_norm2_;
  double logit_bound2_ = 0;  // of the current head: max ||q_i||^2 ||k_j||^2 over the pairs seen
  // Of the current row: the keys it sees, its p and dp, and relative variances of its p: of each on its own,
  // and of all together through the sum of p, the stored lse and merges.
  std::int64_t begin_ = 0, count_ = 0;
  std::vector<float> p_, dp_;
  std::vector<double> mean_key_, q_squares_, dout_squares_;
  std::vector<double> pair_variance_;
  double sum_variance_ = 0, lse_variance_ = 0, merge_variance_ = 0;
  ExpectedErrors errors_;
};

}  // namespace

ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::AttentionShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> dout, const reference::AttentionResult& right,
                               const std::function<void(std::int64_t)>& after_head) {
  return Model(dtype, roundings, shape, q, k, v, dout, right).run(after_head);
}

ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::DynamicMaskShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> bias, std::span<const double> dout,
                               const reference::DynamicMaskResult& right,
                               const std::function<void(std::int64_t)>& after_head) {
  PairModel pairs(shape, bias, right.dbias);
  return Model(dtype, roundings, shape.attention, q, k, v, dout, right.attention, &pairs).run(after_head);
}

double relative_tolerance(DType dtype, double variance_sum, double scale, std::int64_t rows,
                          std::int64_t width) {
  if (dtype == DType::fp64) return fp64_tolerance;
  if (scale <= 0 || rows <= 0) return 0;
  const double sample = static_cast<double>(rows) * std::sqrt(static_cast<double>(width));
  return safety_factor * (1 + 3 / std::sqrt(2 * sample)) * std::sqrt(variance_sum) / scale;
}

void hold_to_fp64(std::span<const double> right, ExpectedError& error) {
  const double tiny2 = square(underflow(DType::fp64));
  for (std::size_t i = 0; i < right.size(); ++i) {
    error.variance[i] =
        square(fp64_tolerance / safety_factor) * std::max(error.terms[i], square(right[i])) + tiny2;
  }
}

double element_tolerance(double variance) {
  return 5 * safety_factor * std::sqrt(variance);
}

}  // namespace cplab
