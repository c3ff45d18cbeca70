// Linear attention and its gradients in double, the yardstick of `verify`: the recurrence itself, token by
// token over one whole sequence, with one state of D x E numbers for every head. No chunks, no scan, and no
// power of a decay that is not reached by multiplying.
//
//   S_t = T_t S_{t-1} + b_t k_t^T v_t     out_t = q_t S_t
//
// No scale, no normaliser; the diagonal is included.
//
//   decay   T_t = exp(-slope)                                           b_t = 1   (LASP, Lightning attention)
//   column  T_t = diag(exp g_t)                                         b_t = 1   (gated linear attention)
//   matrix  T_t = (I - beta_t k_t^T k_t) diag(exp g_t)                  b_t = beta_t  (gated delta rules)
//
// A gate of heads is one g_t for all columns (Mamba-2; with matrix: Gated DeltaNet); its gradient is the sum
// over them.
//
// Gradients with M_t = dL/dS_t = q_t^T dout_t + T_{t+1}^T M_{t+1}; for matrix with X = diag(exp g_t) S_{t-1}
// and u = v_t - k_t X:
//   dq_t = dout_t S_t^T
//   decay, column  dk_t = v_t M_t^T                        dv_t = k_t M_t
//   matrix         dk_t = beta_t (u M_t^T - k_t M_t X^T)   dv_t = beta_t k_t M_t   dbeta_t = k_t M_t u^T
//   column         dg_t = rowsum(M_t * diag(exp g_t) S_{t-1}); matrix the same of (I - beta_t k_t^T k_t) M_t
// Slopes are constants and have no gradient.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cplab::reference {

enum class Transition : std::uint8_t { decay, column, matrix };
enum class Gate : std::uint8_t { column, head };

// One sequence.
struct LinearShape {
  std::int64_t S = 0;  // tokens
  std::int64_t H = 1;  // heads, of queries, keys and values alike
  std::int64_t D = 1;  // query and key size
  std::int64_t E = 1;  // value size
  Transition transition = Transition::decay;
  Gate gate = Gate::column;  // of column and matrix
  std::int64_t gates() const { return gate == Gate::head ? 1 : D; }
};

// All in C order. What the transition does not have stays empty.
struct LinearInputs {
  std::span<const double> q, k;            // [S,H,D]
  std::span<const double> v;               // [S,H,E]
  std::span<const double> dout = {};       // [S,H,E]; empty: the forward only
  std::span<const double> slopes = {};     // [H], decay
  std::span<const double> log_decay = {};  // [S,H,gates()], g of column and matrix
  std::span<const double> beta = {};       // [S,H], matrix
};

// Without dout, what needs it is empty.
struct LinearResult {
  std::vector<double> out;         // [S,H,E]
  std::vector<double> dq, dk;      // [S,H,D]
  std::vector<double> dv;          // [S,H,E]
  std::vector<double> dlog_decay;  // [S,H,gates()], column and matrix
  std::vector<double> dbeta;       // [S,H], matrix
  // [edges,H,D,E], at the edges asked for. Edge p lies before token p. Of keys: what token p finds, for decay
  // sum over j < p of lambda^(p - j) k_j^T v_j, with a factor for the step to p; for column and matrix
  // S_{p-1}, without any factor of token p. Of queries: dL / d(the state of keys at p), for decay sum over i
  // >= p of lambda^(i - p) q_i^T dout_i.
  std::vector<double> key_states, query_states;
};

// `edges` are 0 .. S, in any order. Memory beyond inputs and results is O(sqrt(S) D E); time O(H S D E).
// `after_head` is called with the number of heads that are done. Throws std::invalid_argument if a size does
// not fit `shape`, an edge is outside the sequence, or a slope is negative or not finite.
LinearResult linear_recurrence(const LinearShape& shape, const LinearInputs& inputs,
                               std::span<const std::int64_t> edges = {},
                               const std::function<void(std::int64_t heads_done)>& after_head = {});

}  // namespace cplab::reference
