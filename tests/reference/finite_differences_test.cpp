// Gradients of the dense reference against central differences of its own forward: the only check of the
// backward formulas that knows none of them.
//
// L = sum dout . out. For one input t, (L(t + h) - L(t - h)) / 2h differs from dL/dt by
//  - truncation h^2/6 max |d3L/dt3|. A probability average of w_j = dout_i . v_j under scores that move with
//    rates r_j has third derivative the joint cumulant k(w, r, r, r); centred, |k| <= |E w r^3| +
//    3 |E w r| E r^2 <= 4 range(w) range(r)^3. With entries in [-1, 1] range(w) <= 2E. Moving q_ix moves
//    all scores of one row, range(r) <= 2 scale; moving k_jx moves one score of each of the S (H/G) rows
//    that read it, range(r) <= scale; v enters linearly;
//  - rounding: L is a sum of m = S H E products of size at most 1, so each evaluation is off by at most
//    (m + c) u m with c = 2 (D + 1) s_max + 4 S + 20 for the error of out (see two_formulations_test.cpp),
//    and a difference of two of them divided by 2h by (m + c) u m / h.
// h = 2^-12 makes both parts small: about 1e-6 and 1e-8 of a gradient of order 1 for the sizes below, so a
// wrong factor or sign anywhere is caught.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/reference/fp64_roundoff.hpp"
#include "tests/reference/random_attention.hpp"

namespace cplab::testing {
namespace {

constexpr double difference_step = 0x1p-12;

double loss(const RandomAttention& problem) {
  const AttentionResult result = reference::dense_attention(problem.shape, problem.q, problem.k, problem.v);
  double sum = 0;
  for (std::size_t x = 0; x < result.out.size(); ++x) sum += problem.dout[x] * result.out[x];
  return sum;
}

std::vector<double> differences(RandomAttention problem, std::vector<double> RandomAttention::*input) {
  std::vector<double> gradient;
  for (std::size_t x = 0; x < (problem.*input).size(); ++x) {
    const double value = (problem.*input)[x];
    (problem.*input)[x] = value + difference_step;
    const double above = loss(problem);
    (problem.*input)[x] = value - difference_step;
    const double below = loss(problem);
    (problem.*input)[x] = value;
    gradient.push_back((above - below) / (2 * difference_step));
  }
  return gradient;
}

struct Tolerances {
  double dq, dk, dv;
};

Tolerances tolerances_of(const AttentionShape& shape) {
  constexpr double u = fp64_roundoff;
  const auto S = static_cast<double>(shape.S);
  const auto D = static_cast<double>(shape.D);
  const auto E = static_cast<double>(shape.E);
  const double terms = S * static_cast<double>(shape.H) * E;
  const double rounding = (terms + 2 * (D + 1) * shape.scale * D + 4 * S + 20) * u * terms / difference_step;
  const double rows = S * static_cast<double>(shape.H / shape.G);
  const double truncation = difference_step * difference_step / 6 * 4 * (2 * E) * std::pow(shape.scale, 3);
  return {.dq = 8 * truncation + rounding, .dk = rows * truncation + rounding, .dv = rounding};
}

}  // namespace

TEST_CASE("gradients equal central differences") {
  const AttentionShape shapes[] = {
      {.S = 1, .H = 1, .G = 1, .D = 3, .E = 2, .scale = 0.7, .left = -1, .right = -1},
      {.S = 6, .H = 2, .G = 2, .D = 3, .E = 4, .scale = 0.6, .left = -1, .right = -1},
      {.S = 7, .H = 4, .G = 2, .D = 3, .E = 2, .scale = 0.6, .left = -1, .right = 0},
      {.S = 7, .H = 3, .G = 1, .D = 2, .E = 3, .scale = 1.0, .left = 2, .right = 1},
      {.S = 6, .H = 2, .G = 1, .D = 4, .E = 3, .scale = 0.5, .left = 2, .right = 0},
      {.S = 5, .H = 2, .G = 1, .D = 2, .E = 2, .scale = 0.5, .left = 0, .right = 0},
  };
  std::uint32_t seed = 100;
  for (const AttentionShape& shape : shapes) {
    INFO(to_string(shape));
    const RandomAttention problem = random_attention(shape, ++seed);
    const AttentionResult result = first_formulation(problem);
    const Tolerances tolerances = tolerances_of(shape);
    // The tolerance itself must be too small to hide a gradient of order one tenth.
    REQUIRE(tolerances.dq < 1e-4);
    REQUIRE(tolerances.dk < 1e-4);
    CHECK(largest_difference(result.dq, differences(problem, &RandomAttention::q)) <= tolerances.dq);
    CHECK(largest_difference(result.dk, differences(problem, &RandomAttention::k)) <= tolerances.dk);
    CHECK(largest_difference(result.dv, differences(problem, &RandomAttention::v)) <= tolerances.dv);
  }
}

}  // namespace cplab::testing
