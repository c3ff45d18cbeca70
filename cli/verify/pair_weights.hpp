// What the pairs of one query with some keys add to the model of expected errors (tolerance.hpp): weights by
// which squares of v, k, q and dout are multiplied. They are floats, since most of the model's time goes
// here: numbers of size 1 in the units below, a number of roundings each, and what is 2^-60 smaller than the
// largest does not matter.
#pragma once

#include <cstdint>

namespace cplab {

// Of one row and the keys at hand. dp and delta are divided by PairUnits::gradient, variances by e^2.
struct PairRow {
  std::int64_t count = 0;
  const float* p = nullptr;               // 0 of a pair that does not count
  const float* dp = nullptr;              // dout_i.v_j, in its unit; null in a forward
  const float* of_pair = nullptr;         // relative variance of p
  const float* slope = nullptr;           // dx/dz where there is a softcap, else null
  const float* slope_variance = nullptr;  // likewise
  const float* v_norm2 = nullptr;         // ||v_j||^2
  float delta = 0;
  float of_lse = 0;             // variance of the stored lse
  float of_sum = 0;             // of the sums over keys
  float of_operand = 0;         // relative variance of k and v, by their own size
  float of_products = 0;        // of a product of dP: times ||v_j||^2, and
  float of_square_product = 0;  // times dp^2
  // The variance of what is next to nothing, for p and for ds: that of a spacing of subnormals, and at most
  // the square of the value itself, which becomes 0. Like every variance here they are in units of a
  // rounding's, so a square is too.
  float tiny = 0, tiny_ds = 0, of_next_to_nothing = 0;
};

// terms[j] = p^2, variance[j] the variance of p V; returns the sum of pair variances times p^2.
double out_weights(const PairRow&, float* terms, float* variance);

// terms[j] and variance[j] of dS K; means[j] = p dx/dz.
void dq_weights(const PairRow&, float* terms, float* variance, float* means);

// Likewise of dS^T Q and P^T dO. `more` adds to the relative variance of ds and p; `of_delta` is the variance
// of delta.
struct KeyWeights {
  float *dk_terms, *dk_variance, *dv_terms, *dv_variance;
};
void key_weights(const PairRow&, float of_row, float of_key_sum, float of_delta, const KeyWeights&);

}  // namespace cplab
