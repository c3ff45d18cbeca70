// Dense softmax attention and its gradients in double, the yardstick of `verify`. Two passes over a fully
// formed block of scores: no online softmax, no tiles over keys, no partial results to merge. On all cores;
// the bits of a result do not depend on how many there are.
//
//   s_ij = scale q_i.k_j where query i sees key j      p_ij = exp(s_ij) / exp(lse_i)
//   out_i = sum_j p_ij v_j                             lse_i = log(sum_j exp(s_ij) + exp(sink))
//   max_logit = max_ij s_ij
//   dv_j = sum_i p_ij dout_i                           ds_ij = p_ij (dout_i.v_j - sum_n p_in dout_i.v_n)
//   dq_i = scale sum_j ds_ij k_j                       dk_j = scale sum_i ds_ij q_i
//
//   dsink = -sum_i exp(sink - lse_i) sum_n p_in dout_i.v_n
//
// The sink is a number of each query head, or absent. Query head h reads key/value head h / (H/G); dk and dv
// sum over the query heads of their group.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "reference/row_sample.hpp"
#include "reference/visible_keys.hpp"

namespace cplab::reference {

// One sequence attending to itself, or to keys of their own.
struct AttentionShape {
  std::int64_t S = 0;  // queries
  std::int64_t H = 1;  // query heads, a multiple of G
  std::int64_t G = 1;  // key/value heads
  std::int64_t D = 1;  // query and key size
  std::int64_t E = 1;  // value size
  double scale = 1;
  // Query i sees key j iff -left <= j - i <= right; negative means unlimited. Causal: left -1, right 0.
  std::int64_t left = -1;
  std::int64_t right = -1;
  std::int64_t keys = -1;  // negative: as many as queries
  // Where keys have tokens of their own and masks are of rectangles: see VisibleRule.
  std::int64_t first_at = 0, chunk = 0;
  bool only_rectangles = false;
  std::vector<Rectangle> rectangles = {};

  std::int64_t N() const { return keys < 0 ? S : keys; }
  VisibleRule rule() const { return {S, N(), first_at, left, right, chunk, only_rectangles, rectangles}; }
};

// The out and the gradients of a query that sees no key are 0, its lse is -inf, or where there are sinks its
// head's.
struct AttentionResult {
  std::vector<double> out;        // [S,H,E]
  std::vector<double> lse;        // [H,S], natural logarithm, scale included
  std::vector<double> max_logit;  // [H], -inf for S = 0
  std::vector<double> dq;         // [S,H,D]; dq, dk and dv are empty without dout
  std::vector<double> dk;         // [N,G,D]
  std::vector<double> dv;         // [N,G,E]
  std::vector<double> dsink;      // [H]; empty without dout or sinks
};

// q [S,H,D], k [N,G,D], v [N,G,E] and dout [S,H,E] in C order; an empty dout asks for the forward only.
// Memory beyond inputs and results is, for each core, 2 x 64 N doubles, so N of many thousands is fine; time
// is O(H S min(S, window) (D + E)). `after_head` is called with how much is done, counted in query heads,
// from one thread at a time. With a `sample` out, lse, dq, dk and dv are computed of its rows alone
// (max_logit where it says so) and may be anything elsewhere. A forward then takes the time of these rows. dk
// and dv need the softmax and delta of every query that sees the key, thus the forward of all: about a
// quarter of the time of all results. Throws std::invalid_argument if a size does not fit `shape`.
AttentionResult dense_attention(const AttentionShape& shape, std::span<const double> q,
                                std::span<const double> k, std::span<const double> v,
                                std::span<const double> dout = {},
                                const std::function<void(std::int64_t heads_done)>& after_head = {},
                                const RowSample* sample = nullptr, std::span<const double> sinks = {});

}  // namespace cplab::reference
