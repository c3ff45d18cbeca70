// Loops that a compiler turns into vector instructions; see pair_weights.hpp.
#include "cli/verify/pair_weights.hpp"

#include <algorithm>

namespace cplab {

namespace {

// What dk and dq have in common, of pair j.
struct GradientPair {
  float p2, slope2, ds2, term, of_products;
};

template <bool capped>
GradientPair gradient_pair(const PairRow& row, std::int64_t j) {
  const float slope = capped ? row.slope[j] : 1.0f, slope2 = slope * slope, p2 = row.p[j] * row.p[j];
  const float dp = row.dp[j], difference2 = (dp - row.delta) * (dp - row.delta);
  GradientPair pair{p2, slope2, p2 * difference2 * slope2, 0, 0};
  // Before the cancellation of dP and delta. dP is a sum of E products: its error is measured by them, not by
  // what they add up to.
  pair.term = p2 * slope2 * (dp * dp + row.delta * row.delta);
  float of_products = slope2 * (row.of_products * row.v_norm2[j] + row.of_square_product * dp * dp);
  if constexpr (capped) of_products += difference2 * row.slope_variance[j];
  pair.of_products = p2 * of_products;
  return pair;
}

template <bool capped>
void dq_weights_of(const PairRow& row, float* __restrict terms, float* __restrict variance,
                   float* __restrict means) {
  const float of_all = 1 + row.of_lse + row.of_sum + row.of_operand;
  for (std::int64_t j = 0; j < row.count; ++j) {
    const GradientPair pair = gradient_pair<capped>(row, j);
    terms[j] = pair.term;
    variance[j] = pair.ds2 * (of_all + row.of_pair[j]) +
                  std::min(pair.ds2 * row.of_next_to_nothing, row.tiny_ds) + pair.of_products;
    means[j] = capped ? row.p[j] * row.slope[j] : row.p[j];
  }
}

template <bool capped>
void key_weights_of(const PairRow& row, float of_row, float of_key_sum, float of_delta,
                    float* __restrict dk_terms, float* __restrict dk_variance, float* __restrict dv_terms,
                    float* __restrict dv_variance) {
  const float of_all = 1 + row.of_lse + of_row + of_key_sum;
  for (std::int64_t j = 0; j < row.count; ++j) {
    const GradientPair pair = gradient_pair<capped>(row, j);
    dk_terms[j] = pair.term;
    dk_variance[j] = pair.ds2 * (of_all + row.of_pair[j]) +
                     std::min(pair.ds2 * row.of_next_to_nothing, row.tiny_ds) + pair.of_products +
                     pair.p2 * pair.slope2 * of_delta;
    dv_terms[j] = pair.p2;
    dv_variance[j] =
        pair.p2 * (of_all + row.of_pair[j]) + std::min(pair.p2 * row.of_next_to_nothing, row.tiny);
  }
}

}  // namespace

double out_weights(const PairRow& row, float* __restrict terms, float* __restrict variance) {
  for (std::int64_t j = 0; j < row.count; ++j) {
    const float p2 = row.p[j] * row.p[j];
    terms[j] = p2;
    variance[j] =
        p2 * (1 + row.of_operand + row.of_pair[j]) + std::min(p2 * row.of_next_to_nothing, row.tiny);
  }
  double sum = 0;
  for (std::int64_t j = 0; j < row.count; ++j) sum += static_cast<double>(terms[j] * row.of_pair[j]);
  return sum;
}

void dq_weights(const PairRow& row, float* terms, float* variance, float* means) {
  row.slope ? dq_weights_of<true>(row, terms, variance, means)
            : dq_weights_of<false>(row, terms, variance, means);
}

void key_weights(const PairRow& row, float of_row, float of_key_sum, float of_delta, const KeyWeights& into) {
  const auto write = row.slope ? key_weights_of<true> : key_weights_of<false>;
  write(row, of_row, of_key_sum, of_delta, into.dk_terms, into.dk_variance, into.dv_terms, into.dv_variance);
}

}  // namespace cplab
