// Expected rounding errors; see tolerance.hpp for the model.
#include "cli/verify/tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "cli/verify/model_rows.hpp"
#include "cli/verify/model_scratch.hpp"
#include "cli/verify/pair_model.hpp"
#include "cli/verify/pair_weights.hpp"
#include "cli/verify/rounding_errors.hpp"
#include "reference/products.hpp"
#include "reference/row_sample.hpp"
#include "reference/workers.hpp"

namespace cplab {

namespace {

using reference::RowRun;
using reference::Rows;
using Scratch = ModelScratch;

// Query rows, or keys, handled together, and how many of the others at a time: the numbers for their pairs
// then stay in a core's cache.
constexpr std::int64_t block_rows = 128;
constexpr std::int64_t pairs_at_a_time = 256;

class Model : ModelRows {
 public:
  Model(const ModelInputs& inputs, const reference::RowSample* sample)
      : ModelRows(inputs), sample_(sample), rows_(as_index(in.shape.H * in.shape.S)) {}

  ExpectedErrors run(const std::function<void(std::int64_t)>& after_head) {
    make_room();
    // Where keys are selected, a row has to be looked at as a whole.
    const bool whole = in.pairs && in.pairs->selects();
    const bool backward = !in.dout.empty(), others = sample_ && (backward || sample_->max_logit);
    const std::int64_t S = in.shape.S, H = in.shape.H, G = in.shape.G;
    const std::vector<RowRun> blocks = others ? reference::blocks_of(S, block_rows) : std::vector<RowRun>(),
                              wanted = reference::wanted_runs(sample_, S, block_rows),
                              keys = !backward ? std::vector<RowRun>()
                                     : whole   ? reference::blocks_of(S, S)
                                             : reference::wanted_key_runs(sample_, in.shape.N(), block_rows);
    const std::int64_t all = H * std::ssize(blocks) + H * std::ssize(wanted) + G * std::ssize(keys);
    std::vector<Scratch> scratch(as_index(reference::worker_count(all)));
    for (Scratch& of_worker : scratch)
      if (in.pairs) of_worker.pairs.emplace(*in.pairs);
    if (in.pairs && in.pairs->has_table())
      for (Scratch& of_worker : scratch)
        of_worker.table_variance = of_worker.table_terms = std::vector<double>(in.pairs->dbias().size());
    std::int64_t before = 0;
    const auto each = [&](std::int64_t heads, const std::vector<RowRun>& runs, auto work) {
      reference::for_each_unit(
          heads * std::ssize(runs),
          [&](std::int64_t unit, int worker) {
            work(unit / std::ssize(runs), runs[as_index(unit % std::ssize(runs))], scratch[as_index(worker)]);
          },
          [&](std::int64_t units) {
            if (after_head) after_head((before + units) * H / all);
          });
      before += heads * std::ssize(runs);
    };
    const std::int64_t keys_at_a_time = whole ? S : pairs_at_a_time,
                       queries_at_a_time = whole ? block_rows : pairs_at_a_time;
    // Of a sample first what its keys need of every query.
    each(H, blocks,
         [&](auto h, RowRun run, Scratch& of) { of_query_rows(h, run, keys_at_a_time, false, of); });
    each(H, wanted,
         [&](auto h, RowRun run, Scratch& of) { of_query_rows(h, run, keys_at_a_time, backward, of); });
    each(G, keys, [&](auto g, RowRun run, Scratch& of) {
      of_key_rows(g, run.first, run.count, queries_at_a_time, of);
    });
    for (std::int64_t h = 0; h < in.shape.H; ++h) finish_max_logit(h);
    if (!in.dout.empty()) {
      for (const Scratch& of_worker : scratch) take_table(of_worker);
      for (std::int64_t h = 0; h < std::ssize(in.sinks); ++h) finish_dsink(h);
      finish(errors_.dk, in.roundings.dkv, in.right.dk);
      finish(errors_.dv, in.roundings.dkv, in.right.dv);
      finish_dbias();
    }
    if (in.dtype == DType::fp64) replace_by_fp64();
    return std::move(errors_);
  }

 private:
  void make_room(ExpectedError& error, std::int64_t rows, std::int64_t heads, std::int64_t width) const {
    error.variance.assign(as_index(rows * heads * width), 0);
    error.terms.assign(error.variance.size(), 0);
  }

  void make_room() {
    const std::int64_t S = in.shape.S, N = in.shape.N();
    make_room(errors_.out, S, in.shape.H, in.shape.E);
    make_room(errors_.lse, S, in.shape.H, 1);
    errors_.max_logit.variance.assign(as_index(in.shape.H), 0);
    errors_.max_logit.terms.assign(as_index(in.shape.H), 0);
    if (in.dout.empty()) return;
    make_room(errors_.dq, S, in.shape.H, in.shape.D);
    make_room(errors_.dk, N, in.shape.G, in.shape.D);
    make_room(errors_.dv, N, in.shape.G, in.shape.E);
    errors_.dsink.variance.assign(in.sinks.size(), 0);
    errors_.dsink.terms.assign(in.sinks.size(), 0);
    if (!in.pairs) return;
    errors_.dbias.variance.assign(in.pairs->dbias().size(), 0);
    errors_.dbias.terms.assign(in.pairs->dbias().size(), 0);
  }

  // lse, out and, if asked, dq of a block of queries; what its rows are for their keys.
  void of_query_rows(std::int64_t h, RowRun run, std::int64_t keys_at_a_time, bool backward,
                     Scratch& scratch) {
    const std::int64_t S = in.shape.S, H = in.shape.H, G = in.shape.G, D = in.shape.D, E = in.shape.E,
                       g = group_of(h);
    const auto [first, count] = run;
    RowModel* const rows = &rows_[as_index(h * S + first)];
    const bool table = backward && in.pairs && in.pairs->has_table();
    if (table) scratch.of_columns.assign(as_index(count * in.pairs->columns()), {});
    for (std::int64_t i = 0; i < count; ++i) rows[i] = begin_row(first + i, h);
    const Rows<float> of_out = scratch.zeros(Scratch::of_sums, 2 * count, E),
                      of_dq = scratch.zeros(Scratch::of_more_sums, 2 * count, D),
                      mean_key = scratch.zeros(Scratch::of_means, count, D);
    const Rows<float> queries =
        scratch.times(Scratch::of_q, rows_of(in.q, H, h, D, first, count), in.shape.scale);
    Rows<float> gradients{};
    if (backward)
      gradients = scratch.times(Scratch::of_dout, rows_of(in.dout, H, h, E, first, count), 1 / unit_.dp);
    const auto [begin, end] = visible.seen_by(first, count);
    for (std::int64_t key = begin; key < end; key += keys_at_a_time) {
      const std::int64_t keys = std::min(keys_at_a_time, end - key);
      const auto k_rows = rows_of(in.k, G, g, D, key, keys), v_rows = rows_of(in.v, G, g, E, key, keys);
      const Rows<float> p = scratch.room(Scratch::of_p, count, keys),
                        dp = scratch.room(Scratch::of_dp, count, keys);
      const Rows<float> k_floats = scratch.times(Scratch::of_k, k_rows, 1);
      products_.store_floats_with_transposed(queries, k_floats, p);
      if (backward)
        products_.store_floats_with_transposed(gradients, scratch.times(Scratch::of_v, v_rows, 1), dp);
      const Rows<float> out_rows = scratch.room(Scratch::of_weights, 2 * count, keys),
                        dq_rows = scratch.room(Scratch::of_more_weights, 2 * count, keys),
                        mean_rows = scratch.room(Scratch::of_mean_weights, count, keys);
      for (std::int64_t i = 0; i < count; ++i) {
        const PairRow pairs =
            weigh_row(rows[i], first + i, h, key, keys, p.row(i), backward ? dp.row(i) : nullptr, scratch);
        rows[i].sum_variance += e2_ * out_weights(pairs, out_rows.row(i), out_rows.row(count + i));
        if (backward) dq_weights(pairs, dq_rows.row(i), dq_rows.row(count + i), mean_rows.row(i));
        if (table) add_to_columns(rows[i], pairs, h, i, scratch);
      }
      products_.add_floats(out_rows, scratch.squares(Scratch::of_squares, v_rows, unit_.v), of_out);
      if (const ProjectedErrors* made = in.roundings.projected) {
        add_made(out_rows, rows_of(made->v, G, g, E, key, keys), unit_.v, of_out, scratch);
        if (backward) add_made(dq_rows, rows_of(made->k, G, g, D, key, keys), unit_.k, of_dq, scratch);
      }
      if (!backward) continue;
      products_.add_floats(dq_rows, scratch.squares(Scratch::of_more_squares, k_rows, unit_.k), of_dq);
      products_.add_floats(mean_rows, k_floats, mean_key);
    }
    for (std::int64_t i = 0; i < count; ++i) {
      if (!rows[i].live) continue;
      finish_forward_row(rows[i], first + i, h, of_out.row(i), of_out.row(count + i));
      if (backward) finish_dq_row(rows[i], first + i, h, of_dq.row(i), of_dq.row(count + i), mean_key.row(i));
      if (table) finish_columns(rows[i], h, i, scratch);
    }
  }

  // Variances that K or V have before attention, beside the terms that they are in.
  void add_made(Rows<float> terms, Rows<const double> variances, double unit, Rows<float> into,
                Scratch& scratch) const {
    const std::int64_t count = into.rows / 2;
    products_.add_floats(terms.from(0, count),
                         scratch.times(Scratch::of_made, variances, 1 / (e2_ * square(unit))),
                         into.from(count, count));
  }

  // Sums of weights and squares, in their units, as terms and variance. What the floats cannot hold beside
  // the largest is allowed for.
  double terms_of(float sum, double unit) const { return unit * sum; }
  double variance_of(float sum, double unit) const { return e2_ * unit * (sum + keys_ * 0x1p-120); }

  void finish_forward_row(RowModel& row, std::int64_t i, std::int64_t h, const float* terms,
                          const float* variance) {
    const double lse_terms = 1 + row.t2 + square(row.lse);
    const std::size_t at = as_index(h * in.shape.S + i);
    errors_.lse.terms[at] = lse_terms;
    errors_.lse.variance[at] =
        f2_ * (static_cast<double>(in.shape.D) / 2 + keys_ / 3 + 32 + 4 * in.roundings.out.tile_count) *
        lse_terms;
    // Errors of logits, where K has some beside what sums of fp32 have.
    if (in.roundings.projected) errors_.lse.variance[at] += row.sum_variance;
    const std::size_t first = as_index((i * in.shape.H + h) * in.shape.E);
    for (std::int64_t x = 0; x < in.shape.E; ++x) {
      const double out = in.right.out[first + as_index(x)];
      const double of_terms = errors_.out.terms[first + as_index(x)] = terms_of(terms[x], square(unit_.v));
      errors_.out.variance[first + as_index(x)] =
          variance_of(variance[x], square(unit_.v)) + e2_ * result_variance(in.roundings.out, of_terms, out) +
          row.sum_variance * square(out) +
          (row.merge_variance + f2_ * keys_ / 2) * (of_terms + square(out)) / 2 + tiny2_;
    }
    if (!in.dout.empty())
      row.delta_variance =
          delta_variance(row, &in.dout[first], &in.right.out[first], &errors_.out.variance[first]);
  }

  // Variance of delta_i = sum_e dout_ie out_ie, formed from the stored out; the error of the sum of p is one
  // for all of out_i.
  double delta_variance(const RowModel& row, const double* dout, const double* out,
                        const double* out_variance) const {
    const double sum = f2_ * static_cast<double>(in.shape.E) / 4;
    double variance = (sum + f2_ + row.sum_variance) * square(row.delta);
    for (std::int64_t x = 0; x < in.shape.E; ++x)
      variance += square(dout[x]) * (out_variance[x] + (sum - row.sum_variance) * square(out[x]));
    return variance;
  }

  void finish_dq_row(const RowModel& row, std::int64_t i, std::int64_t h, const float* terms,
                     const float* variance, const float* mean_key) {
    const double s2 = square(in.shape.scale), unit = s2 * square(unit_.k * unit_.dp),
                 of_sum = f2_ * keys_ / 4;
    const std::size_t first = as_index((i * in.shape.H + h) * in.shape.D);
    for (std::int64_t d = 0; d < in.shape.D; ++d) {
      const double dq = in.right.dq[first + as_index(d)];
      const double of_terms = errors_.dq.terms[first + as_index(d)] = terms_of(terms[d], unit);
      errors_.dq.variance[first + as_index(d)] =
          variance_of(variance[d], unit) +
          s2 * row.delta_variance * square(static_cast<double>(mean_key[d])) +
          (row.of_all() + of_sum) * square(dq) + tiny2_ +
          e2_ * result_variance(in.roundings.dq, of_terms, dq);
    }
  }

  // dk, dv (and dbias) of a block of keys, from the queries of all heads of the group that see one of them.
  void of_key_rows(std::int64_t g, std::int64_t key, std::int64_t keys, std::int64_t queries_at_a_time,
                   Scratch& scratch) {
    const std::int64_t G = in.shape.G, D = in.shape.D, E = in.shape.E;
    const Rows<float> of_dk = scratch.zeros(Scratch::of_sums, 2 * keys, D),
                      of_dv = scratch.zeros(Scratch::of_more_sums, 2 * keys, E);
    const Rows<float> k_rows =
                          scratch.times(Scratch::of_k, rows_of(in.k, G, g, D, key, keys), in.shape.scale),
                      v_rows = scratch.times(Scratch::of_v, rows_of(in.v, G, g, E, key, keys), 1 / unit_.dp);
    const auto [begin, end] = visible.seeing(key, keys);
    const std::int64_t per_group = in.shape.H / in.shape.G;
    for (std::int64_t h = g * per_group; h < (g + 1) * per_group; ++h)
      for (std::int64_t first = begin; first < end; first += queries_at_a_time)
        add_to_keys(h, first, std::min(queries_at_a_time, end - first), key, k_rows, v_rows, of_dk, of_dv,
                    scratch);
    const double of_k = square(in.shape.scale * unit_.q * unit_.dp), of_v = square(unit_.dout);
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::size_t k_first = as_index(((key + j) * G + g) * D),
                        v_first = as_index(((key + j) * G + g) * E);
      for (std::int64_t d = 0; d < D; ++d) {
        errors_.dk.terms[k_first + as_index(d)] = terms_of(of_dk.row(j)[d], of_k);
        errors_.dk.variance[k_first + as_index(d)] = variance_of(of_dk.row(keys + j)[d], of_k);
      }
      for (std::int64_t x = 0; x < E; ++x) {
        errors_.dv.terms[v_first + as_index(x)] = terms_of(of_dv.row(j)[x], of_v);
        errors_.dv.variance[v_first + as_index(x)] = variance_of(of_dv.row(keys + j)[x], of_v);
      }
    }
  }

  void add_to_keys(std::int64_t h, std::int64_t first, std::int64_t count, std::int64_t key,
                   Rows<const float> k_rows, Rows<const float> v_rows, Rows<float> of_dk, Rows<float> of_dv,
                   Scratch& scratch) {
    const std::int64_t keys = k_rows.rows;
    const auto q_rows = rows_of(in.q, in.shape.H, h, in.shape.D, first, count),
               dout_rows = rows_of(in.dout, in.shape.H, h, in.shape.E, first, count);
    const Rows<float> p = scratch.room(Scratch::of_p, count, keys),
                      dp = scratch.room(Scratch::of_dp, count, keys);
    products_.store_floats_with_transposed(scratch.times(Scratch::of_q, q_rows, 1), k_rows, p);
    products_.store_floats_with_transposed(scratch.times(Scratch::of_dout, dout_rows, 1), v_rows, dp);
    const Rows<float> of_k = scratch.room(Scratch::of_weights, count, 2 * keys),
                      of_v = scratch.room(Scratch::of_more_weights, count, 2 * keys);
    const double of_key_sum = f2_ * keys_ / 4 * group();
    for (std::int64_t i = 0; i < count; ++i) {
      const RowModel& row = rows_[as_index(h * in.shape.S + first + i)];
      const PairRow pairs = weigh_row(row, first + i, h, key, keys, p.row(i), dp.row(i), scratch);
      const double of_delta = row.delta_variance / square(unit_.dp);
      key_weights(pairs, static_cast<float>(row.of_all() / e2_), static_cast<float>(of_key_sum / e2_),
                  static_cast<float>(of_delta / e2_),
                  {of_k.row(i), of_k.row(i) + keys, of_v.row(i), of_v.row(i) + keys});
      if (scratch.pairs && scratch.pairs->has_bias()) add_to_dbias(row, pairs, of_key_sum, scratch);
    }
    products_.add_floats_of_transposed(of_k, scratch.squares(Scratch::of_squares, q_rows, unit_.q), of_dk);
    products_.add_floats_of_transposed(of_v, scratch.squares(Scratch::of_more_squares, dout_rows, unit_.dout),
                                       of_dv);
  }

  void add_to_dbias(const RowModel& row, const PairRow& pairs, double of_key_sum, const Scratch& scratch) {
    for (std::int64_t j = 0; j < pairs.count; ++j) {
      if (pairs.p[j] == 0) continue;
      const double p2 = square(static_cast<double>(pairs.p[j])),
                   slope2 = square(static_cast<double>(pairs.slope[j]));
      const double dp2 = square(pairs.dp[j] * unit_.dp),
                   difference2 = square(pairs.dp[j] * unit_.dp - row.delta);
      const double of_row = row.lse_variance + row.of_all() + of_key_sum;
      const std::size_t b = scratch.pairs->index(j);
      errors_.dbias.terms[b] += p2 * slope2 * (dp2 + square(row.delta));
      errors_.dbias.variance[b] +=
          pair_variance(row, pairs, j) + p2 * slope2 * (of_row * difference2 + row.delta_variance);
    }
  }

  // Variance of dz by what each pair has of its own, but for what the row shares.
  double pair_variance(const RowModel& row, const PairRow& pairs, std::int64_t j) const {
    const double p2 = square(static_cast<double>(pairs.p[j])),
                 slope2 = square(static_cast<double>(pairs.slope[j]));
    const double dp2 = square(pairs.dp[j] * unit_.dp),
                 difference2 = square(pairs.dp[j] * unit_.dp - row.delta);
    const double products =
        f2_ / 4 *
        (row.dout_norm2 * pairs.v_norm2[j] * square(unit_.v) + static_cast<double>(in.shape.E) * dp2);
    return p2 * (slope2 * (e2_ * pairs.of_pair[j] * difference2 + products) +
                 difference2 * e2_ * pairs.slope_variance[j]);
  }

  void add_to_columns(const RowModel& row, const PairRow& pairs, std::int64_t h, std::int64_t i,
                      Scratch& scratch) const {
    const std::int64_t columns = in.pairs->columns();
    for (std::int64_t j = 0; j < pairs.count; ++j) {
      if (pairs.p[j] == 0) continue;
      const double p = pairs.p[j] * static_cast<double>(pairs.slope[j]), dp = pairs.dp[j] * unit_.dp;
      Scratch::OfColumn& of =
          scratch.of_columns[as_index(i * columns) + scratch.pairs->index(j) - as_index(h * columns)];
      of.ds += p * (dp - row.delta);
      of.p += p;
      of.variance += pair_variance(row, pairs, j);
      of.terms += square(p) * (square(dp) + square(row.delta));
    }
  }

  void finish_columns(const RowModel& row, std::int64_t h, std::int64_t i, Scratch& scratch) const {
    const std::int64_t columns = in.pairs->columns();
    for (std::int64_t x = 0; x < columns; ++x) {
      const Scratch::OfColumn& of = scratch.of_columns[as_index(i * columns + x)];
      const std::size_t at = as_index(h * columns + x);
      scratch.table_terms[at] += of.terms;
      scratch.table_variance[at] +=
          of.variance + (row.lse_variance + row.of_all()) * square(of.ds) + row.delta_variance * square(of.p);
    }
  }

  void take_table(const Scratch& of_worker) {
    for (std::size_t x = 0; x < of_worker.table_terms.size(); ++x) {
      errors_.dbias.terms[x] += of_worker.table_terms[x];
      errors_.dbias.variance[x] += of_worker.table_variance[x];
    }
  }

  void finish_dsink(std::int64_t h) {
    double terms = 0, variance = 0;
    const double sink = in.sinks[as_index(h)], of_sum = f2_ * (static_cast<double>(in.shape.S) + 64) / 4;
    for (std::int64_t i = 0; i < in.shape.S; ++i) {
      const std::size_t at = as_index(h * in.shape.S + i);
      const RowModel& row = rows_[at];
      if (!row.live) continue;
      const double p2 = square(std::exp(sink - row.lse));
      terms += p2 * square(row.delta);
      variance +=
          p2 * (row.delta_variance +
                square(row.delta) * (errors_.lse.variance[at] + f2_ * (square(row.lse) + square(sink) + 2)));
    }
    errors_.dsink.terms[as_index(h)] = terms;
    errors_.dsink.variance[as_index(h)] =
        variance + of_sum * (terms + square(in.right.dsink[as_index(h)])) + tiny2_;
  }

  void finish_max_logit(std::int64_t h) {
    double bound2 = 0;
    for (std::int64_t i = 0; i < in.shape.S; ++i)
      bound2 = std::max(bound2, rows_[as_index(h * in.shape.S + i)].logit_bound2);
    bound2 *= square(in.shape.scale);
    const double unit = std::min(unit_roundoff(in.dtype), 0x1p-24);
    errors_.max_logit.terms[as_index(h)] = bound2;
    errors_.max_logit.variance[as_index(h)] =
        square((static_cast<double>(in.shape.D) + 2) * unit / 6) * bound2 + tiny2_;
  }

  // Adds what rounds the sum over the queries and over the heads of a group.
  void finish(ExpectedError& error, const Roundings& roundings, const std::vector<double>& right) const {
    for (std::size_t i = 0; i < right.size(); ++i) {
      error.variance[i] += e2_ * result_variance(roundings, error.terms[i], right[i]) +
                           f2_ * keys_ * group() / 4 * square(right[i]) + tiny2_;
    }
  }

  void finish_dbias() {
    if (in.pairs && in.pairs->has_table())
      for (std::size_t x = 0; x < errors_.dbias.variance.size(); ++x)
        errors_.dbias.variance[x] += f2_ * keys_ * static_cast<double>(in.shape.S) / 4 *
                                         (errors_.dbias.terms[x] + square(in.pairs->dbias()[x])) +
                                     tiny2_;
    if (!in.pairs || !in.pairs->has_bias()) return;
    if (in.pairs->of_keys()) {
      // One number a key: a slice may have few, and nearly all of its size may be one key's that every rank's
      // queries see.
      for (std::size_t i = 0; i < errors_.dbias.variance.size(); ++i)
        errors_.dbias.variance[i] += e2_ * single_sum_variance(in.roundings.dkv, in.pairs->dbias()[i]);
      return finish(errors_.dbias, in.roundings.dkv, {in.pairs->dbias().begin(), in.pairs->dbias().end()});
    }
    for (std::size_t i = 0; i < errors_.dbias.variance.size(); ++i)
      errors_.dbias.variance[i] += e2_ * square(in.pairs->dbias()[i]) + tiny2_;
  }

  // fp64 is held to a flat relative error that any summation order keeps by orders of magnitude.
  void replace_by_fp64() {
    hold_to_fp64(in.right.out, errors_.out);
    hold_to_fp64(in.right.lse, errors_.lse);
    hold_to_fp64(in.right.dq, errors_.dq);
    hold_to_fp64(in.right.dk, errors_.dk);
    hold_to_fp64(in.right.dv, errors_.dv);
    hold_to_fp64(in.right.max_logit, errors_.max_logit);
    if (in.pairs) hold_to_fp64(in.pairs->dbias(), errors_.dbias);
    hold_to_fp64(in.right.dsink, errors_.dsink);
  }

  const reference::RowSample* sample_;
  std::vector<RowModel> rows_;  // [H,S]
  ExpectedErrors errors_;
};

}  // namespace

ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::AttentionShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> dout, const reference::AttentionResult& right,
                               const std::function<void(std::int64_t)>& after_head,
                               const reference::RowSample* sample, std::span<const double> sinks) {
  return Model({dtype, roundings, shape, q, k, v, dout, right, nullptr, sinks}, sample).run(after_head);
}

ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::DynamicMaskShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> bias, std::span<const double> dout,
                               const reference::DynamicMaskResult& right,
                               const std::function<void(std::int64_t)>& after_head) {
  const PairModel pairs(shape, bias, right.dbias);
  return Model({dtype, roundings, shape.attention, q, k, v, dout, right.attention, &pairs, shape.sinks},
               nullptr)
      .run(after_head);
}

}  // namespace cplab
