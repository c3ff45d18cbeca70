// Expected rounding errors; see tolerance.hpp for the model.
#include "cli/verify/tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "cli/verify/pair_model.hpp"
#include "cli/verify/rounding_errors.hpp"
#include "reference/products.hpp"
#include "reference/workers.hpp"

namespace cplab {

namespace {

using reference::Rows;

// Query rows, or keys, handled together, and how many of the others at a time: the numbers for their pairs
// then stay in a core's cache.
constexpr std::int64_t block_rows = 64;
constexpr std::int64_t pairs_at_a_time = 256;

// What is known of the row of query i and head h before its pairs: variances of its p that are one for all of
// them, through the sum of p, the stored lse and merges; of delta.
struct RowModel {
  double lse = 0, t2 = 0, dout_norm2 = 0, delta = 0;
  double sum_variance = 0, lse_variance = 0, merge_variance = 0, delta_variance = 0;
  double logit_bound2 = 0;  // max ||q_i||^2 ||k_j||^2 over the keys it sees
  bool live = false;        // it sees a key that counts

  double of_all() const { return sum_variance + lse_variance + merge_variance; }
};

// Of one worker. Blocks of rows by pairs hold float scores, then P, and dP; weights come two for each pair:
// of the terms and of the variance.
class Scratch {
 public:
  template <class T>
  Rows<T> zeros(int which, std::int64_t rows, std::int64_t cols) {
    const Rows<T> block = room<T>(which, rows, cols);
    std::fill_n(block.data, rows * cols, T{0});
    return block;
  }
  template <class T>
  Rows<T> room(int which, std::int64_t rows, std::int64_t cols) {
    std::vector<T>& values = std::get<std::vector<std::vector<T>>>(values_)[as_index(which)];
    if (std::ssize(values) < rows * cols) values.resize(as_index(rows * cols));
    return {values.data(), rows, cols, cols};
  }
  // A part of a head as floats times a factor, and squared.
  Rows<float> floats(int which, Rows<const double> of, double factor = 1) {
    const Rows<float> into = room<float>(which, of.rows, of.cols);
    for (std::int64_t i = 0; i < of.rows; ++i)
      for (std::int64_t x = 0; x < of.cols; ++x) into.row(i)[x] = static_cast<float>(factor * of.row(i)[x]);
    return into;
  }
  Rows<double> squares(int which, Rows<const double> of) {
    const Rows<double> into = room<double>(which, of.rows, of.cols);
    for (std::int64_t i = 0; i < of.rows; ++i)
      for (std::int64_t x = 0; x < of.cols; ++x) into.row(i)[x] = square(of.row(i)[x]);
    return into;
  }

  std::vector<double> pair_variance, slope, slope_variance;  // of the current row
  std::optional<PairModel> pairs;

 private:
  std::tuple<std::vector<std::vector<float>>, std::vector<std::vector<double>>> values_{
      std::vector<std::vector<float>>(6), std::vector<std::vector<double>>(8)};
};

// Where which block lies in a Scratch.
enum FloatBlock : int { of_p, of_dp, of_q_floats, of_dout_floats, of_k_floats, of_v_floats };
enum DoubleBlock : int {
  of_weights,
  of_more_weights,
  of_mean_weights,
  of_squares,
  of_more_squares,
  of_sums,
  of_more_sums,
  of_means
};

class Model {
 public:
  Model(DType dtype, const PlanRoundings& roundings, const reference::AttentionShape& shape,
        std::span<const double> q, std::span<const double> k, std::span<const double> v,
        std::span<const double> dout, const reference::AttentionResult& right,
        const PairModel* pairs = nullptr)
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
        keys_(static_cast<double>(shape.S)),
        rows_(as_index(shape.H * shape.S)) {
    if (shape.left >= 0 && shape.right >= 0) {
      keys_ = std::min(keys_, static_cast<double>(shape.left + shape.right + 1));
    }
  }

  ExpectedErrors run(const std::function<void(std::int64_t)>& after_head) {
    make_room();
    norms();
    // Where keys are selected, a row has to be looked at as a whole.
    const bool whole = pairs_ && pairs_->selects();
    const std::int64_t S = shape_.S, blocks = (S + block_rows - 1) / block_rows;
    const std::int64_t block_keys = whole ? S : block_rows, key_blocks = whole ? 1 : blocks;
    const std::int64_t of_queries = shape_.H * blocks, of_keys = dout_.empty() ? 0 : shape_.G * key_blocks;
    std::vector<Scratch> scratch(
        as_index(std::max(reference::worker_count(of_queries), reference::worker_count(of_keys))));
    for (Scratch& of_worker : scratch)
      if (pairs_) of_worker.pairs.emplace(*pairs_);
    const auto tell = [&](std::int64_t units) {
      if (after_head) after_head(units * shape_.H / (of_queries + of_keys));
    };
    reference::for_each_unit(
        of_queries,
        [&](std::int64_t unit, int worker) {
          of_query_rows(unit / blocks, unit % blocks * block_rows, whole ? S : pairs_at_a_time,
                        scratch[as_index(worker)]);
        },
        tell);
    reference::for_each_unit(
        of_keys,
        [&](std::int64_t unit, int worker) {
          const std::int64_t key = unit % key_blocks * block_keys;
          of_key_rows(unit / key_blocks, key, std::min(block_keys, S - key),
                      whole ? block_rows : pairs_at_a_time, scratch[as_index(worker)]);
        },
        [&](std::int64_t units) { tell(of_queries + units); });
    for (std::int64_t h = 0; h < shape_.H; ++h) finish_max_logit(h);
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

  void make_room() {
    make_room(errors_.out, shape_.H, shape_.E);
    make_room(errors_.lse, shape_.H, 1);
    errors_.max_logit.variance.assign(as_index(shape_.H), 0);
    errors_.max_logit.terms.assign(as_index(shape_.H), 0);
    if (dout_.empty()) return;
    make_room(errors_.dq, shape_.H, shape_.D);
    make_room(errors_.dk, shape_.G, shape_.D);
    make_room(errors_.dv, shape_.G, shape_.E);
    if (!pairs_) return;
    errors_.dbias.variance.assign(pairs_->dbias().size(), 0);
    errors_.dbias.terms.assign(pairs_->dbias().size(), 0);
  }

  // Of a row of a [S, heads, width] tensor, one head.
  static const double* row_of(std::span<const double> tensor, std::int64_t i, std::int64_t heads,
                              std::int64_t head, std::int64_t width) {
    return &tensor[as_index((i * heads + head) * width)];
  }
  Rows<const double> rows_of(std::span<const double> tensor, std::int64_t heads, std::int64_t head,
                             std::int64_t width, std::int64_t first, std::int64_t count) const {
    return {row_of(tensor, first, heads, head, width), count, width, heads * width};
  }

  // mean k_d^2 over the keys of a head; ||k_j||^2 and ||v_j||^2.
  void norms() {
    const std::int64_t S = shape_.S, G = shape_.G, D = shape_.D, E = shape_.E;
    k_mean_square_.assign(as_index(G * D), 0);
    k_norm2_.resize(as_index(G * S));
    v_norm2_.resize(as_index(G * S));
    for (std::int64_t g = 0; g < G; ++g) {
      for (std::int64_t j = 0; j < S; ++j) {
        const double *const key = row_of(k_, j, G, g, D), *const value = row_of(v_, j, G, g, E);
        for (std::int64_t d = 0; d < D; ++d)
          k_mean_square_[as_index(g * D + d)] += square(key[d]) / static_cast<double>(S);
        k_norm2_[as_index(g * S + j)] = std::inner_product(key, key + D, key, 0.0);
        v_norm2_[as_index(g * S + j)] = std::inner_product(value, value + E, value, 0.0);
      }
    }
  }

  std::int64_t first_key(std::int64_t i) const {
    return shape_.left < 0 ? 0 : std::max<std::int64_t>(0, i - shape_.left);
  }
  std::int64_t end_key(std::int64_t i) const {
    return shape_.right < 0 ? shape_.S : std::min(shape_.S, i + shape_.right + 1);
  }
  std::int64_t group_of(std::int64_t h) const { return h / (shape_.H / shape_.G); }

  RowModel begin_row(std::int64_t i, std::int64_t h) const {
    const std::int64_t D = shape_.D, E = shape_.E, g = group_of(h);
    const double* const query = row_of(q_, i, shape_.H, h, D);
    RowModel row;
    row.lse = right_.lse[as_index(h * shape_.S + i)];
    row.live = row.lse != -std::numeric_limits<double>::infinity();  // else nothing is rounded
    if (!row.live) return row;
    for (std::int64_t d = 0; d < D; ++d)
      row.t2 += square(shape_.scale * query[d]) * k_mean_square_[as_index(g * D + d)];
    row.sum_variance = f2_ * keys_ / 3;
    row.lse_variance = f2_ * square(row.lse);
    row.merge_variance = f2_ * roundings_.out.tile_count * (4 + 2 * square(row.lse));
    const double q_norm2 = std::inner_product(query, query + D, query, 0.0);
    for (std::int64_t j = first_key(i); j < end_key(i); ++j)
      row.logit_bound2 = std::max(row.logit_bound2, q_norm2 * k_norm2_[as_index(g * shape_.S + j)]);
    if (dout_.empty()) return row;
    const double *const dout = row_of(dout_, i, shape_.H, h, E), *const out =
                                                                     row_of(right_.out, i, shape_.H, h, E);
    row.delta = std::inner_product(dout, dout + E, out, 0.0);
    row.dout_norm2 = std::inner_product(dout, dout + E, dout, 0.0);
    return row;
  }

  // From scores of keys `first` on to p, of the keys that the row sees and that count; the others get 0, and
  // their dp too. Fills the worker's pair_variance, slope and slope_variance.
  void weigh_row(const RowModel& row, std::int64_t i, std::int64_t h, std::int64_t first, std::int64_t count,
                 float* p, float* dp, Scratch& scratch) const {
    std::int64_t begin = std::clamp<std::int64_t>(first_key(i) - first, 0, count),
                 end = std::clamp<std::int64_t>(end_key(i) - first, begin, count);
    if (!row.live) end = begin;
    scratch.pair_variance.assign(as_index(count), 0);
    scratch.slope.assign(as_index(count), 1);
    scratch.slope_variance.assign(as_index(count), 0);
    const double products = f2_ * static_cast<double>(shape_.D) / 4,
                 flat = products * row.t2 + f2_ * (32 * row.t2 + 2);
    double* const variance = scratch.pair_variance.data();
    for (std::int64_t j = begin; j < end; ++j)
      variance[j] = flat + products * square(static_cast<double>(p[j]));
    if (scratch.pairs && begin < end) scratch.pairs->begin_row(i, h, first);
    for (std::int64_t j = begin; scratch.pairs && j < end; ++j) {
      if (!scratch.pairs->counts(j)) continue;
      const float logit = p[j];
      p[j] = scratch.pairs->capped(j, logit);
      variance[j] += scratch.pairs->more_variance(j, logit, variance[j], f2_);
      scratch.slope[as_index(j)] = scratch.pairs->slope(j);
      scratch.slope_variance[as_index(j)] = scratch.pairs->slope_variance(j);
    }
    products_.float_exponentials(p + begin, end - begin, static_cast<float>(row.lse));
    for (float* const values : {p, dp}) {
      if (values == nullptr) continue;
      std::fill(values, values + begin, 0.0f);
      std::fill(values + end, values + count, 0.0f);
      for (std::int64_t j = begin; scratch.pairs && j < end; ++j)
        if (!scratch.pairs->counts(j)) values[j] = 0;
    }
    for (std::int64_t j = begin; scratch.pairs && j < end; ++j)
      if (!scratch.pairs->counts(j)) variance[j] = 0;
  }

  // lse, out and dq of a block of queries; what its rows are for their keys.
  void of_query_rows(std::int64_t h, std::int64_t first, std::int64_t keys_at_a_time, Scratch& scratch) {
    const std::int64_t S = shape_.S, H = shape_.H, G = shape_.G, D = shape_.D, E = shape_.E, g = group_of(h);
    const std::int64_t count = std::min(block_rows, S - first);
    RowModel* const rows = &rows_[as_index(h * S + first)];
    for (std::int64_t i = 0; i < count; ++i) rows[i] = begin_row(first + i, h);
    const Rows<double> of_out = scratch.zeros<double>(of_sums, 2 * count, E),
                       of_dq = scratch.zeros<double>(of_more_sums, 2 * count, D),
                       mean_key = scratch.zeros<double>(of_means, count, D);
    const Rows<float> queries = scratch.floats(of_q_floats, rows_of(q_, H, h, D, first, count), shape_.scale);
    const bool backward = !dout_.empty();
    const Rows<float> gradients =
        backward ? scratch.floats(of_dout_floats, rows_of(dout_, H, h, E, first, count)) : Rows<float>{};
    const std::int64_t end = end_key(first + count - 1);
    for (std::int64_t key = first_key(first); key < end; key += keys_at_a_time) {
      const std::int64_t keys = std::min(keys_at_a_time, end - key);
      const auto k_rows = rows_of(k_, G, g, D, key, keys), v_rows = rows_of(v_, G, g, E, key, keys);
      const Rows<float> p = scratch.room<float>(of_p, count, keys),
                        dp = scratch.room<float>(of_dp, count, keys);
      products_.store_floats_with_transposed(queries, scratch.floats(of_k_floats, k_rows), p);
      if (backward)
        products_.store_floats_with_transposed(gradients, scratch.floats(of_v_floats, v_rows), dp);
      const Rows<double> out_weights = scratch.room<double>(of_weights, 2 * count, keys),
                         dq_weights = scratch.room<double>(of_more_weights, 2 * count, keys),
                         mean_weights = scratch.room<double>(of_mean_weights, count, keys);
      for (std::int64_t i = 0; i < count; ++i) {
        weigh_row(rows[i], first + i, h, key, keys, p.row(i), backward ? dp.row(i) : nullptr, scratch);
        for (std::int64_t j = 0; j < keys; ++j) {
          const double p2 = square(static_cast<double>(p.row(i)[j])),
                       of_pair = scratch.pair_variance[as_index(j)];
          rows[i].sum_variance += of_pair * p2;
          out_weights.row(i)[j] = p2;
          out_weights.row(count + i)[j] = rounding_variance(p2) + of_pair * p2;
        }
        if (!backward) continue;
        for (std::int64_t j = 0; j < keys; ++j) {
          const PairWeights weights = weights_of(rows[i], g, key, j, p.row(i)[j], dp.row(i)[j], scratch);
          dq_weights.row(i)[j] = weights.term;
          dq_weights.row(count + i)[j] = weights.variance;
          mean_weights.row(i)[j] = weights.mean;
        }
      }
      products_.add(out_weights, scratch.squares(of_squares, v_rows), of_out);
      if (!backward) continue;
      products_.add(dq_weights, scratch.squares(of_more_squares, k_rows), of_dq);
      products_.add(mean_weights, k_rows, mean_key);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (!rows[i].live) continue;
      finish_forward_row(rows[i], first + i, h, of_out.row(i), of_out.row(count + i));
      if (backward) finish_dq_row(rows[i], first + i, h, of_dq.row(i), of_dq.row(count + i), mean_key.row(i));
    }
  }

  // Of one pair in dq, scale^2 left out: before the cancellation of dP and delta; and what becomes of the
  // roundings. dP is a sum of E products: its error is measured by them, not by what they add up to.
  struct PairWeights {
    double term, variance, mean;  // of the squares of k; of k
    double p2, ds2, of_delta;     // p^2, ds^2, and what delta's variance is multiplied with
    double of_products;           // of the products of dP and of the slope
  };
  PairWeights weights_of(const RowModel& row, std::int64_t g, std::int64_t key, std::int64_t j, float p_value,
                         float dp_value, const Scratch& scratch) const {
    const double p = p_value, dp = dp_value, slope = scratch.slope[as_index(j)];
    const double p2 = square(p), slope2 = square(slope), difference2 = square(dp - row.delta);
    const double of_sum = f2_ * keys_ / 4;
    PairWeights w{};
    w.p2 = p2;
    w.ds2 = p2 * difference2 * slope2;
    w.term = p2 * slope2 * (square(dp) + square(row.delta));
    const double products = f2_ / 4 *
                            (row.dout_norm2 * v_norm2_[as_index(g * shape_.S + key + j)] +
                             static_cast<double>(shape_.E) * square(dp));
    w.of_products = p2 * (slope2 * products + difference2 * scratch.slope_variance[as_index(j)]);
    w.variance = rounding_variance(w.ds2) +
                 (scratch.pair_variance[as_index(j)] + row.lse_variance + of_sum) * w.ds2 + w.of_products;
    w.mean = p * slope;
    w.of_delta = p2 * slope2;
    return w;
  }

  void finish_forward_row(RowModel& row, std::int64_t i, std::int64_t h, const double* terms,
                          const double* variance) {
    const double lse_terms = 1 + row.t2 + square(row.lse);
    const std::size_t at = as_index(h * shape_.S + i);
    errors_.lse.terms[at] = lse_terms;
    errors_.lse.variance[at] =
        f2_ * (static_cast<double>(shape_.D) / 2 + keys_ / 3 + 32 + 4 * roundings_.out.tile_count) *
        lse_terms;
    const std::size_t first = as_index((i * shape_.H + h) * shape_.E);
    for (std::int64_t x = 0; x < shape_.E; ++x) {
      const double out = right_.out[first + as_index(x)];
      errors_.out.terms[first + as_index(x)] = terms[x];
      errors_.out.variance[first + as_index(x)] =
          variance[x] + e2_ * result_variance(roundings_.out, terms[x], out) +
          row.sum_variance * square(out) +
          (row.merge_variance + f2_ * keys_ / 2) * (terms[x] + square(out)) / 2 + tiny2_;
    }
    if (!dout_.empty())
      row.delta_variance =
          delta_variance(row, &dout_[first], &right_.out[first], &errors_.out.variance[first]);
  }

  // Variance of delta_i = sum_e dout_ie out_ie, formed from the stored out; the error of the sum of p is one
  // for all of out_i.
  double delta_variance(const RowModel& row, const double* dout, const double* out,
                        const double* out_variance) const {
    const double sum = f2_ * static_cast<double>(shape_.E) / 4;
    double variance = (sum + f2_ + row.sum_variance) * square(row.delta);
    for (std::int64_t x = 0; x < shape_.E; ++x)
      variance += square(dout[x]) * (out_variance[x] + (sum - row.sum_variance) * square(out[x]));
    return variance;
  }

  void finish_dq_row(const RowModel& row, std::int64_t i, std::int64_t h, const double* terms,
                     const double* variance, const double* mean_key) {
    const double s2 = square(shape_.scale), of_sum = f2_ * keys_ / 4;
    const std::size_t first = as_index((i * shape_.H + h) * shape_.D);
    for (std::int64_t d = 0; d < shape_.D; ++d) {
      const double dq = right_.dq[first + as_index(d)];
      const double of_terms = errors_.dq.terms[first + as_index(d)] = s2 * terms[d];
      errors_.dq.variance[first + as_index(d)] =
          s2 * (variance[d] + row.delta_variance * square(mean_key[d])) +
          (row.of_all() + of_sum) * square(dq) + tiny2_ + e2_ * result_variance(roundings_.dq, of_terms, dq);
    }
  }

  // dk, dv (and dbias) of a block of keys, from the queries of all heads of the group that see one of them.
  void of_key_rows(std::int64_t g, std::int64_t key, std::int64_t keys, std::int64_t queries_at_a_time,
                   Scratch& scratch) {
    const std::int64_t S = shape_.S, G = shape_.G, D = shape_.D, E = shape_.E;
    const Rows<double> of_dk = scratch.zeros<double>(of_sums, 2 * keys, D),
                       of_dv = scratch.zeros<double>(of_more_sums, 2 * keys, E);
    const Rows<float> k_rows = scratch.floats(of_k_floats, rows_of(k_, G, g, D, key, keys), shape_.scale),
                      v_rows = scratch.floats(of_v_floats, rows_of(v_, G, g, E, key, keys));
    const std::int64_t begin = shape_.right < 0 ? 0 : std::max<std::int64_t>(0, key - shape_.right),
                       end = shape_.left < 0 ? S : std::min(S, key + keys + shape_.left),
                       per_group = shape_.H / G;
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h)
      for (std::int64_t first = begin; first < end; first += queries_at_a_time)
        add_to_keys(h, first, std::min(queries_at_a_time, end - first), key, k_rows, v_rows, of_dk, of_dv,
                    scratch);
    const double s2 = square(shape_.scale);
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::size_t k_first = as_index(((key + j) * G + g) * D),
                        v_first = as_index(((key + j) * G + g) * E);
      for (std::int64_t d = 0; d < D; ++d) {
        errors_.dk.terms[k_first + as_index(d)] = s2 * of_dk.row(j)[d];
        errors_.dk.variance[k_first + as_index(d)] = s2 * of_dk.row(keys + j)[d];
      }
      std::copy_n(of_dv.row(j), E, &errors_.dv.terms[v_first]);
      std::copy_n(of_dv.row(keys + j), E, &errors_.dv.variance[v_first]);
    }
  }

  void add_to_keys(std::int64_t h, std::int64_t first, std::int64_t count, std::int64_t key,
                   Rows<const float> k_rows, Rows<const float> v_rows, Rows<double> of_dk, Rows<double> of_dv,
                   Scratch& scratch) {
    const std::int64_t keys = k_rows.rows, g = group_of(h);
    const auto q_rows = rows_of(q_, shape_.H, h, shape_.D, first, count),
               dout_rows = rows_of(dout_, shape_.H, h, shape_.E, first, count);
    const Rows<float> p = scratch.room<float>(of_p, count, keys),
                      dp = scratch.room<float>(of_dp, count, keys);
    products_.store_floats_with_transposed(scratch.floats(of_q_floats, q_rows), k_rows, p);
    products_.store_floats_with_transposed(scratch.floats(of_dout_floats, dout_rows), v_rows, dp);
    const Rows<double> dk_weights = scratch.room<double>(of_weights, count, 2 * keys),
                       dv_weights = scratch.room<double>(of_more_weights, count, 2 * keys);
    const double of_sum = f2_ * keys_ / 4, of_key_sum = of_sum * group();
    for (std::int64_t i = 0; i < count; ++i) {
      const RowModel& row = rows_[as_index(h * shape_.S + first + i)];
      weigh_row(row, first + i, h, key, keys, p.row(i), dp.row(i), scratch);
      double *const of_k = dk_weights.row(i), *const of_v = dv_weights.row(i);
      const double of_row = row.of_all();
      for (std::int64_t j = 0; j < keys; ++j) {
        const PairWeights w = weights_of(row, g, key, j, p.row(i)[j], dp.row(i)[j], scratch);
        const double of_pair = scratch.pair_variance[as_index(j)] + row.lse_variance;
        of_k[j] = w.term;
        of_k[keys + j] =
            w.variance + (of_row + of_key_sum - of_sum) * w.ds2 + w.of_delta * row.delta_variance;
        of_v[j] = w.p2;
        of_v[keys + j] = rounding_variance(w.p2) + (of_pair + of_row + of_key_sum) * w.p2;
        if (!scratch.pairs || !scratch.pairs->has_bias() || w.p2 == 0) continue;
        const std::size_t b = scratch.pairs->index(j);
        errors_.dbias.terms[b] += w.term;
        errors_.dbias.variance[b] +=
            (of_pair + of_row + of_key_sum) * w.ds2 + w.of_products + w.of_delta * row.delta_variance;
      }
    }
    products_.add_of_transposed(dk_weights, scratch.squares(of_squares, q_rows), of_dk);
    products_.add_of_transposed(dv_weights, scratch.squares(of_more_squares, dout_rows), of_dv);
  }

  void finish_max_logit(std::int64_t h) {
    double bound2 = 0;
    for (std::int64_t i = 0; i < shape_.S; ++i)
      bound2 = std::max(bound2, rows_[as_index(h * shape_.S + i)].logit_bound2);
    bound2 *= square(shape_.scale);
    const double unit = std::min(unit_roundoff(dtype_), 0x1p-24);
    errors_.max_logit.terms[as_index(h)] = bound2;
    errors_.max_logit.variance[as_index(h)] =
        square((static_cast<double>(shape_.D) + 2) * unit / 6) * bound2 + tiny2_;
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
  const PairModel* pairs_;  // null: softmax attention
  double e2_, f2_, tiny2_, keys_;
  const reference::Products& products_ = reference::products();
  std::vector<double> k_mean_square_, k_norm2_, v_norm2_;  // [G,D], [G,S], [G,S]
  std::vector<RowModel> rows_;                             // [H,S]
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
  const PairModel pairs(shape, bias, right.dbias);
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
