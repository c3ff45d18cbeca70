// How large the error of a right execution of linear attention is expected to be, element by element, as
// tolerance.hpp says it for softmax attention, with e and f as there.
//
// A state S goes from token to token through T (kernels/linear.hpp); so does the variance of its error,
// through the squares of the elements of T. With W the squares of the terms that make S up (k_d^2 v_x^2, on
// their way through the same squares) and U the largest square that an element of S had at any edge, likewise
// decayed:
//
// state: each token adds to the variance f^2 (1 + slope^2) S^2, of the sum and of the factor, whose exponent
// is as inexact as it is large; and, in the kernels that multiply rows of keys by their factors before they
// are summed (decay), e^2 k_d^2 v_x^2. Near tokens are summed before they are decayed any further, in any
// order: f^2 near_tokens/2 times half of W and half of S^2. n conversions on its way between ranks: e^2 n U.
//
// out: states of the tokens before are rounded before q S, pairs of near tokens before P V (how far near is,
// is the kernel's affair, at most near_tokens): e^2 times the maximum of sum_d q_d^2 U_dx and the sum over
// near j of P_ij^2 v_jx^2, with P_ij = lambda^(i - j) q_i.k_j. Error of the states: sum_d q_d^2 var(S_dx).
// Sums of D products and of tokens: f^2 (D + near_tokens) / 2 times half of that maximum and half the
// result's square. Results, casts, sums in nominal: as for softmax attention, with terms sum_d q_d^2 W_dx.
//
// dq, dk, dv: the same of dout S^T, v R^T and k R.
//
// column and matrix are computed token by token in the accumulation dtype: no e but that of results. A delta
// rule subtracts beta k_d (k S)_x, a sum of D products, from S_dx, which may be all but equal to it: f^2 of
// S_dx before, twice (once for the diagonal of a T that is stored), of the result, and of the sum as above.
// Of a delta rule in whose keys there are errors, var(k_d) beta^2 (k S)_x^2 and k_d^2 beta^2 sum_d var(k_d)
// S_dx^2 more.
//
// Convolved Q, K and V have errors of their own, of one rounding and of a sum of W terms: var(x) = e^2 x^2 +
// f^2 W/4 (x^2 + sum t^2). A product of them has that of each factor times the square of the other one. What
// is read with them: sum_d var(q_d) S_dx^2, likewise for v R^T and k R.
//
// For matrix, with X = diag(exp g) S and u = v - k X, F = k M, errors of products add as those of their
// factors:
//  dk        beta^2 sum_x (var(M) u^2 + M^2 var(u) + var(X) F^2 + X^2 var(F))
//  dbeta     sum_x (var(F) u^2 + F^2 var(u))
//  dg        sum_x (var(M') X^2 + M'^2 var(X)),  M' = (I - beta k^T k) M
// and f^2 E/2 of the terms' squares for the sums.
//
// By blocks of tokens (PlanRoundings::by_blocks; kernels/families/linear/gated) there is an e wherever rows
// or states are rounded to nominal on their way into a product:
//  state     e^2 of a row once: k; for a delta rule three times: k, T and u = beta (v - k X). What a delta
//            rule takes away: e^2 beta^2 k_d^2 (4 sum_d' (k_d' X_d'x)^2 + (k X)_x^2), for k, T, W and S.
//  out, dq   2 e^2 of the sum of both things named for `decay`, pairs being those of the block.
//  F, u      e^2 (3 sum_d (k_d M_dx)^2 + F_x^2), and with X and u; F has pairs with the queries of the block.
//  dk        2 e^2 of the terms' squares, and of pairs.
//  dbeta     2 e^2 sum_x F_x^2 (v_x^2 + sum_d (k_d X_dx)^2): three sums of that size make it up.
//  exponents are sums of a block's logarithms, and as inexact as these are large: f^2 L^2 / 3 of the terms of
//            all of these, L the largest sum of |g| over block_tokens; of a state f^2 block_tokens g^2 a
//            token.
//  dg        f^2 L^2 / 3 of (sum of M'^2 X^2) + dg^2; for the sum, block_gates.hpp in place of f^2 E/2.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cli/verify/roundings.hpp"
#include "cli/verify/tolerance.hpp"
#include "reference/linear_recurrence.hpp"

namespace cplab {

inline constexpr std::int64_t near_tokens = 256;
inline constexpr std::int64_t block_tokens = 64;

// Empty what reference::LinearResult has empty; in its layout.
struct LinearErrors {
  ExpectedError out, dq, dk, dv, dlog_decay, dbeta, key_states, query_states;
};

// Variances of errors that rows have before attention, in the layout of the rows.
struct MadeRows {
  std::vector<double> q, k, v;
};

// For one sequence; arguments as for reference::linear_recurrence, whose result `right` is. `made`: Q, K and
// V are no inputs but computed.
LinearErrors expected_linear_errors(DType dtype, const PlanRoundings& roundings,
                                    const reference::LinearShape& shape,
                                    const reference::LinearInputs& inputs,
                                    std::span<const std::int64_t> edges, const reference::LinearResult& right,
                                    const std::function<void(std::int64_t heads_done)>& after_head = {},
                                    const MadeRows* made = nullptr);

}  // namespace cplab
