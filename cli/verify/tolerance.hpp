// How large the error of a right execution is expected to be, element by element, from the roundings that the
// dtype, the tiles and the plan imply; and the tolerances of `verify` that follow.
//
// Every rounding to nearest with unit roundoff u gives an independent relative error whose root mean square
// is 0.4247 u: uniform in +-u / m for a mantissa m, and m log-uniform in [1, 2). Errors of independent
// roundings add in squares, so that the variance of an element's error is a sum over everything that was
// rounded on its way. With e = 0.4247 u of the nominal dtype, f = 0.4247 u of the accumulation dtype (fp32,
// or fp64 for fp64), N the number of keys a query sees and s_ij, p_ij, dp_ij, ds_ij as in
// reference/dense_attention.hpp.
//
// An error of its own for each pair adds to a sum over the keys as the squares of the terms do; one error for
// all pairs of a row is multiplied by the sum itself, which is far larger where the terms agree in sign.
// Partial sums of N terms grow as sqrt(n) where signs are random and as n where they agree: their roundings
// are f^2 N/2 times half the terms' squares and half the result's square.
//
//  p_ij      each on its own: error of s_ij: dot product of D terms f^2 D/2 (t_i^2 + s_ij^2) / 2,
//            t_i^2 = scale^2 sum_d q_id^2 mean(k_d^2); scaling, subtraction of the maximum and exp (logits up
//            to 4 t): f^2 (32 t_i^2 + 2); all of it: pair_ij
//            one for the row: the sum of p over the keys f^2 N/3 and sum_j pair_ij p_ij^2: sum;
//            each merge of tiles: f^2 (4 + 2 lse_i^2): merge
//            in the backward pass p_ij = exp(s_ij - lse_i): the subtraction adds f^2 lse_i^2 to pair_ij, the
//            stored lse adds f^2 lse_i^2 for the row: row = sum + merge + f^2 lse_i^2
//  out       p_ij is rounded before P V:           e^2 A,  A = sum_j p_ij^2 v_j^2
//            error of p:                           sum_j pair_ij p_ij^2 v_j^2 + sum out^2
//            merges:                               merge (A + out^2) / 2
//            accumulation:                         f^2 N/2 (A + out^2) / 2
//            tile results kept in nominal:         e^2 (A + out^2) / 2;   one tile only: e^2 out^2
//            n merges or additions in nominal:     e^2 (n + 1)/2 (A + out^2) / 2   (partial sums grow evenly)
//            casts to nominal:                     e^2 out^2 each
//  lse       all of it in the accumulation dtype:  f^2 (D/2 + N/3 + 32 + 4 tiles) (1 + t_i^2 + lse_i^2)
//  delta     error of the stored out, times dout:  sum_e dout_ie^2 var(out_ie)
//            where sum is one for all of out_i:    sum delta_i^2 in place of its part of var(out_ie)
//            E products:                           f^2 E/2 (sum_e dout_ie^2 out_ie^2 + delta_i^2) / 2
//  dq        ds_ij rounded before dS K:            e^2 A,  A = scale^2 sum_j ds_ij^2 k_j^2
//            error of p:                           scale^2 sum_j pair_ij ds_ij^2 k_j^2 + row dq^2
//            accumulation:                         f^2 N/2 (A + dq^2) / 2
//            dP, E products each:                  scale^2 sum_j p_ij^2 k_j^2 x_ij,
//            x_ij = f^2/2 (||dout_i||^2 ||v_j||^2 + E dp_ij^2) / 2
//            delta is one error for all keys:      scale^2 var(delta_i) (sum_j p_ij k_j)^2
//            results and merges as for out
//  dk        the same over queries, of which each has its own row and delta: row counts as pair_ij;
//            delta:                                scale^2 sum_i p_ij^2 var(delta_i) q_i^2
//            one sum over the queries of all heads of a group: N H/G in place of N
//  dv        as dk, with p_ij rounded before P^T dO: sum_i (e^2 + pair_ij + row) p_ij^2 dout_i^2
//            + f^2 N H/G / 2 (A + dv^2) / 2, A = sum_i p_ij^2 dout_i^2
//  dsink     with p_i = exp(sink - lse_i): sum_i p_i^2 (var(delta_i) + delta_i^2 (var(lse_i) + f^2 (lse_i^2 +
//            sink^2 + 2))), and f^2 S/2 (A + dsink^2) / 2, A = sum_i p_i^2 delta_i^2, for the sum
//  max_logit a maximum of sums of D products is off by no more than the worst of the sums, and a sum of D
//            products, scaled, in any order: (D + 2) u b, u of the accumulation dtype,
//            b = max_ij scale ||q_i|| ||k_j|| over the live pairs, which is no less than scale sum_d |q_id
//            k_jd|. A sixth of this bound counts as the standard deviation: the tolerance of one head is then
//            the bound
//
//
// Where k and v are made of latents they have errors of their own (ProjectedErrors), those of one rounding
// and of a sum of C terms t: o = e^2 + f^2 C/4 of their squares, and f^2 C/4 sum t^2. With O = o + f^2 C/4
// mean sum t^2 / mean k^2, or v^2,
//  p_ij      error of s_ij:                        O t_i^2 more
//  out, dq   o A, and A with f^2 C/4 sum t^2 in the place of v_j^2 or k_j^2, more; lse: sum
//            x_ij: O ||dout_i||^2 ||v_j||^2 / E more
//  dlatent   sums over heads and columns of dk w and dv w: the variance of each with w^2, f^2 n/4 (A +
//            dlatent^2) for n terms, and the roundings of its results as for out
//  drope_key the same of dk alone, over the heads
//  dweights  sums over tokens of c dk, likewise, kept in fp32
//
// fp16 rounds values in its subnormal range to multiples of 2^-24: each of its roundings has min(value^2,
// 2^-48 / 12) on top. Squares of tensors above are elementwise. The sums are formed from the data at hand, so
// that cancellation (a query with one key has dq = 0, and rounding noise in it) is judged by its terms and
// not by its result.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cli/verify/roundings.hpp"
#include "reference/dense_attention.hpp"
#include "reference/dynamic_mask.hpp"
#include "reference/row_sample.hpp"

namespace cplab {

// Variances and scales by element, in the layout of the tensor
// in reference::AttentionResult.
struct ExpectedError {
  std::vector<double> variance;  // of the error
  std::vector<double> terms;     // sum of the squares of the terms that make the element up
  // By head, where rows have errors in common: how many rows count as one of a sample. Empty: each is one.
  std::vector<double> rows_alike = {};
};

struct ExpectedErrors {
  ExpectedError out, lse, dq, dk, dv, max_logit;  // gradients empty without dout
  ExpectedError dbias;                            // as bias, or as the table of buckets
  ExpectedError dsink;                            // empty without sinks
};

// For one sequence; arguments as for reference::dense_attention, whose result `right` is; `after_head` too,
// and `sample`, whose rows get the same errors with it as without.
ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::AttentionShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> dout, const reference::AttentionResult& right,
                               const std::function<void(std::int64_t heads_done)>& after_head = {},
                               const reference::RowSample* sample = nullptr,
                               std::span<const double> sinks = {});

// The same of biases, softcaps and dynamic mask attention (reference/dynamic_mask.hpp). With z_ij, x_ij and
// t_ij = tanh(z_ij / softcap):
//  p_ij      the bias is added and the sum, not q.k alone, goes on: pair_ij + f^2 (4 z_ij^2 + 4 b_ij^2); a
//            softcap: f^2 (4 z_ij^2 + 4 x_ij^2) more. Pairs that do not count have neither value nor error.
//  dz_ij     = ds_ij (1 - t_ij^2): as ds_ij, with that factor in all of its terms, and its own error:
//            p_ij^2 (dp_ij - delta_i)^2 4 t_ij^2 ((1 - t_ij^2)^2 pair_ij / softcap^2 + 4 f^2)
//  dbias     full: dz_ij before it is rounded for the products, rounded once: e^2 dbias^2; keys: the sum over
//            queries and heads of a group, with the roundings of dk, and 2 e^2 dbias^2 for each sum of a rank
//            in nominal: a slice may have one number of size, for which means of many do not hold. Of a
//            table: by row and column sum_j of pair variances, (row + f^2 lse_i^2) (sum_j dz_ij)^2 and
//            var(delta_i) (sum_j p_ij dx/dz)^2, added over the rows, and f^2 N S/2 (A + dbias^2) / 2 for the
//            sum
ExpectedErrors expected_errors(DType dtype, const PlanRoundings& roundings,
                               const reference::DynamicMaskShape& shape, std::span<const double> q,
                               std::span<const double> k, std::span<const double> v,
                               std::span<const double> bias, std::span<const double> dout,
                               const reference::DynamicMaskResult& right,
                               const std::function<void(std::int64_t heads_done)>& after_head = {});

// The tolerance of the relative error ||error|| / scale of a slice of `rows` x `width` elements, where
// scale = max(||reference||, sqrt(sum of terms)): expected root mean square times safety_factor, and times
// 1 + 3 / sqrt(2 n) for the scatter of a sample of n = rows sqrt(width) (elements of a row share errors of
// its logits and of delta; of rows alike, fewer: ExpectedError). fp64: 1e-12.
inline constexpr double safety_factor = 2;
double relative_tolerance(DType dtype, double variance_sum, double scale, std::int64_t rows,
                          std::int64_t width);

// The variances that say 1e-12 of each element, or of its terms where they are larger.
void hold_to_fp64(std::span<const double> right, ExpectedError& error);

// The tolerance of a single element: 5 safety_factor standard deviations. The sum of rounding errors is
// nearly normal and a sample of 1e9 elements stays within 6.1 standard deviations; a single rounding stays
// within 1 / 0.4247 = 2.4.
double element_tolerance(double variance);

}  // namespace cplab
