// See model_rows.hpp, and tolerance.hpp for the formulas.
#include "cli/verify/model_rows.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace cplab {

namespace {

double largest(std::span<const double> tensor) {
  double most = 0;
  for (const double value : tensor) most = std::max(most, std::abs(value));
  return most > 0 ? most : 1;
}

}  // namespace

ModelRows::ModelRows(const ModelInputs& inputs)
    : in(inputs),
      visible(inputs.shape.rule()),
      e2_(rounding_variance(in.dtype)),
      f2_(std::min(e2_, rounding_variance(DType::fp32))),
      tiny2_(square(underflow(in.dtype))),
      keys_(static_cast<double>(in.shape.N())) {
  if (in.shape.left >= 0 && in.shape.right >= 0 && in.shape.rectangles.empty()) {
    keys_ = std::min(keys_, static_cast<double>(in.shape.left + in.shape.right + 1));
  }
  measure();
}

// Units; mean k_d^2 over the keys of a head; ||k_j||^2 and ||v_j||^2.
void ModelRows::measure() {
  const std::int64_t N = in.shape.N(), G = in.shape.G, D = in.shape.D, E = in.shape.E;
  unit_ = {largest(in.q), largest(in.k), largest(in.v), largest(in.dout), 1};
  unit_.dp = unit_.v * unit_.dout * static_cast<double>(E);
  k_mean_square_.assign(as_index(G * D), 0);
  k_norm2_.resize(as_index(G * N));
  v_norm2_.resize(as_index(G * N));
  for (std::int64_t g = 0; g < G; ++g) {
    for (std::int64_t j = 0; j < N; ++j) {
      const double *const key = row_of(in.k, j, G, g, D), *const value = row_of(in.v, j, G, g, E);
      for (std::int64_t d = 0; d < D; ++d)
        k_mean_square_[as_index(g * D + d)] += square(key[d]) / static_cast<double>(N);
      k_norm2_[as_index(g * N + j)] = std::inner_product(key, key + D, key, 0.0);
      v_norm2_[as_index(g * N + j)] =
          static_cast<float>(std::inner_product(value, value + E, value, 0.0) / square(unit_.v));
    }
  }
}

RowModel ModelRows::begin_row(std::int64_t i, std::int64_t h) const {
  const std::int64_t D = in.shape.D, E = in.shape.E, g = group_of(h);
  const double* const query = row_of(in.q, i, in.shape.H, h, D);
  RowModel row;
  row.lse = in.right.lse[as_index(h * in.shape.S + i)];
  row.live = row.lse != -std::numeric_limits<double>::infinity();  // else nothing is rounded
  if (!row.live) return row;
  for (std::int64_t d = 0; d < D; ++d)
    row.t2 += square(in.shape.scale * query[d]) * k_mean_square_[as_index(g * D + d)];
  row.sum_variance = f2_ * keys_ / 3;
  row.lse_variance = f2_ * square(row.lse);
  row.merge_variance = f2_ * in.roundings.out.tile_count * (4 + 2 * square(row.lse));
  const double q_norm2 = std::inner_product(query, query + D, query, 0.0);
  const std::int64_t N = in.shape.N();
  visible.for_each(i, {0, N}, [&](reference::KeyRun run) {
    for (std::int64_t j = run.begin; j < run.end; ++j)
      row.logit_bound2 = std::max(row.logit_bound2, q_norm2 * k_norm2_[as_index(g * N + j)]);
  });
  if (in.dout.empty()) return row;
  const double *const dout = row_of(in.dout, i, in.shape.H, h, E), *const out = row_of(in.right.out, i,
                                                                                       in.shape.H, h, E);
  row.delta = std::inner_product(dout, dout + E, out, 0.0);
  row.dout_norm2 = std::inner_product(dout, dout + E, dout, 0.0);
  return row;
}

PairRow ModelRows::weigh_row(const RowModel& row, std::int64_t i, std::int64_t h, std::int64_t first,
                             std::int64_t count, float* p, const float* dp, ModelScratch& scratch) const {
  scratch.of_pair.resize(as_index(count));
  if (scratch.pairs) {
    scratch.slope.assign(scratch.of_pair.size(), 1);
    scratch.slope_variance.assign(scratch.of_pair.size(), 0);
    if (row.live) scratch.pairs->begin_row(i, h, first);
  }
  const double products = f2_ / e2_ * static_cast<double>(in.shape.D) / 4,
               projected = in.roundings.projected ? in.roundings.projected->average / e2_ : 0;
  const auto flat =
                 static_cast<float>(products * row.t2 + f2_ / e2_ * (32 * row.t2 + 2) + projected * row.t2),
             of_square = static_cast<float>(products);
  std::int64_t done = 0;
  const auto hide = [&](std::int64_t until) {
    std::fill(p + done, p + until, 0.0f);
    std::fill(scratch.of_pair.begin() + done, scratch.of_pair.begin() + until, 0.0f);
  };
  const auto weigh = [&](reference::KeyRun run) {
    const std::int64_t begin = run.begin - first, end = run.end - first;
    hide(begin);
    done = end;
    for (std::int64_t j = begin; j < end; ++j) scratch.of_pair[as_index(j)] = flat + of_square * p[j] * p[j];
    if (scratch.pairs) cap_row(begin, end, p, scratch);
    products_.float_exponentials(p + begin, end - begin, static_cast<float>(row.lse));
    for (std::int64_t j = begin; scratch.pairs && j < end; ++j)
      if (!scratch.pairs->counts(j)) p[j] = 0;
  };
  if (row.live) visible.for_each(i, {first, first + count}, weigh);
  hide(count);

  const double of_square_product = f2_ / e2_ / 4 * static_cast<double>(in.shape.E), dp2 = square(unit_.dp);
  PairRow pairs;
  pairs.count = count;
  pairs.p = p;
  pairs.dp = dp;
  pairs.of_pair = scratch.of_pair.data();
  if (scratch.pairs) pairs.slope = scratch.slope.data(), pairs.slope_variance = scratch.slope_variance.data();
  pairs.v_norm2 = &v_norm2_[as_index(group_of(h) * in.shape.N() + first)];
  pairs.delta = static_cast<float>(row.delta / unit_.dp);
  pairs.of_lse = static_cast<float>(row.lse_variance / e2_);
  pairs.of_sum = static_cast<float>(f2_ / e2_ * keys_ / 4);
  pairs.of_products = static_cast<float>((f2_ / e2_ / 4 + projected / static_cast<double>(in.shape.E)) *
                                         row.dout_norm2 * square(unit_.v) / dp2);
  pairs.of_operand = static_cast<float>(in.roundings.projected ? in.roundings.projected->own / e2_ : 0);
  pairs.of_square_product = static_cast<float>(of_square_product);
  pairs.of_next_to_nothing = static_cast<float>(1 / e2_);
  pairs.tiny = static_cast<float>(tiny2_ / e2_);
  pairs.tiny_ds = static_cast<float>(tiny2_ / e2_ / dp2);
  return pairs;
}

// What bias, softcap and selection make of scores.
void ModelRows::cap_row(std::int64_t begin, std::int64_t end, float* p, ModelScratch& scratch) const {
  PairModel& pairs = *scratch.pairs;
  for (std::int64_t j = begin; j < end; ++j) {
    if (!pairs.counts(j)) continue;
    const float logit = p[j];
    float& variance = scratch.of_pair[as_index(j)];
    p[j] = pairs.capped(j, logit);
    variance += static_cast<float>(pairs.more_variance(j, logit, e2_ * variance, f2_) / e2_);
    scratch.slope[as_index(j)] = static_cast<float>(pairs.slope(j));
    scratch.slope_variance[as_index(j)] = static_cast<float>(pairs.slope_variance(j) / e2_);
  }
}

}  // namespace cplab
