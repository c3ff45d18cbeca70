// Linear attention without a recurrence: the sum over pairs of tokens, with the product of all transitions
// between them. And random problems for it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "reference/linear_recurrence.hpp"

namespace cplab::testing {

using reference::Gate;
using reference::LinearInputs;
using reference::LinearResult;
using reference::LinearShape;
using reference::Transition;

struct RandomLinear {
  LinearShape shape;
  std::vector<double> q, k, v, dout;  // uniform in [-1, 1]
  std::vector<double> slopes;         // as given (decay)
  std::vector<double> log_decay;      // uniform in [-1, 0]
  std::vector<double> beta;           // uniform in [0, 1]

  LinearInputs inputs(bool backward = true) const {
    return {.q = q,
            .k = k,
            .v = v,
            .dout = backward ? std::span<const double>(dout) : std::span<const double>(),
            .slopes = slopes,
            .log_decay = log_decay,
            .beta = beta};
  }
};

RandomLinear random_linear(const LinearShape& shape, const std::vector<double>& slopes, std::uint32_t seed);

std::string to_string(const LinearShape& shape);

// out [S,H,E]: out_i = sum over j <= i of q_i T_i T_{i-1} ... T_{j+1} b_j k_j^T v_j, each product of D x D
// matrices formed anew. With `majorant` every number is replaced by its magnitude and T by I + beta |k|^T
// |k|: the sum of the magnitudes of all terms that the products expand to, which bounds what rounding can do.
std::vector<double> token_form(const RandomLinear& problem, bool majorant = false);

// The same for dk, dv, dq of scalar decays: dq_i = sum_{j <= i} w_ij (g_i.v_j) k_j, dk_j = sum_{i >= j} w_ij
// (g_i.v_j) q_i, dv_j = sum_{i >= j} w_ij (q_i.k_j) g_i, w_ij = exp(-slope (i - j)).
struct TokenGradients {
  std::vector<double> dq, dk, dv;
};
TokenGradients token_gradients(const RandomLinear& problem, bool majorant = false);

}  // namespace cplab::testing
