// What is expected of the error of dlog_decay where blocks of tokens are computed at once, by hand.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "cli/verify/linear_tolerance.hpp"
#include "cli/verify/rounding_errors.hpp"

namespace cplab {
namespace {

struct Rows {
  reference::LinearShape shape;
  std::vector<double> q, k, v, dout, log_decay, beta;
};

struct Gradient {
  std::vector<double> right;
  ExpectedError error;
};

Gradient gradient_of_gates(const Rows& rows, DType dtype, bool by_blocks) {
  const reference::LinearInputs in{.q = rows.q,
                                   .k = rows.k,
                                   .v = rows.v,
                                   .dout = rows.dout,
                                   .log_decay = rows.log_decay,
                                   .beta = rows.beta};
  const reference::LinearResult right = reference::linear_recurrence(rows.shape, in);
  PlanRoundings roundings;
  roundings.by_blocks = by_blocks;
  LinearErrors errors = expected_linear_errors(dtype, roundings, rows.shape, in, {}, right);
  return {right.dlog_decay, errors.dlog_decay};
}

// A sequence of one token: its gate has nothing to scale.
Rows one_token(reference::Gate gate) {
  return {{.S = 1, .H = 1, .D = 2, .E = 1, .transition = reference::Transition::column, .gate = gate},
          {1, 2},
          {3, 1},
          {1},
          {1},
          gate == reference::Gate::head ? std::vector<double>{-0.5} : std::vector<double>{-0.5, -0.5},
          {}};
}

// Without decay all that there is, is 1.
Rows two_tokens(reference::Transition transition) {
  const bool delta = transition == reference::Transition::matrix;
  return {{.S = 2, .H = 1, .D = 1, .E = 1, .transition = transition, .gate = reference::Gate::head},
          {1, 1},
          {1, 1},
          {1, 1},
          {1, 1},
          {0, 0},
          delta ? std::vector<double>{0.5, 0.5} : std::vector<double>{}};
}

double f2() {
  return rounding_variance(DType::fp32);
}

}  // namespace

TEST_CASE("the gate of a first token: what cancels is expected to err as fp32 does, and has a scale") {
  for (const DType dtype : {DType::fp16, DType::bf16, DType::fp32}) {
    CAPTURE(name(dtype));
    const auto [right, error] = gradient_of_gates(one_token(reference::Gate::head), dtype, true);
    REQUIRE(right.size() == 1);
    CHECK(right[0] == 0);
    // dq = S dout = (3, 1), and of S and of the token's own pair alike: 2 (1 * 9 + 4 * 1) = 26 for the
    // queries; M v = (1, 2), 2 (9 * 1 + 1 * 4) = 26 for the keys. Values: half of that.
    CHECK(error.terms[0] == doctest::Approx(52));
    // (E + 1 token + D) / 2 = 2 times (52 + 26) / 2, and 2 * 26.
    const double tiny2 = square(underflow(dtype));
    CHECK(error.variance[0] == doctest::Approx(130 * f2() + tiny2).epsilon(1e-12));
    const double tolerance = relative_tolerance(dtype, error.variance[0], std::sqrt(error.terms[0]), 1, 1);
    CHECK(tolerance * std::sqrt(error.terms[0]) > 4e-8);  // what an H200 gave for such a token
    CHECK(tolerance < 1e-6);                              // far from one rounding to 16 bits
  }
}

TEST_CASE("the gates of a first token's columns: rows are rounded for queries and for keys apart") {
  const auto [right, error] = gradient_of_gates(one_token(reference::Gate::column), DType::bf16, true);
  REQUIRE(right.size() == 2);
  CHECK(right[0] == 0);
  CHECK(error.terms[0] == doctest::Approx(18 + 18));
  CHECK(error.terms[1] == doctest::Approx(8 + 8));
  const double e2 = rounding_variance(DType::bf16);
  CHECK(error.variance[0] == doctest::Approx(2 * 36 * e2).epsilon(1e-4));
  CHECK(error.variance[1] == doctest::Approx(2 * 16 * e2).epsilon(1e-4));
}

TEST_CASE("the gate of a second token: the pair over it, two states and the rows in them are rounded") {
  const double e2 = rounding_variance(DType::bf16);
  const auto [right, error] = gradient_of_gates(two_tokens(reference::Transition::column), DType::bf16, true);
  REQUIRE(right.size() == 2);
  CHECK(right[1] == 1);
  CHECK(error.variance[1] == doctest::Approx(5 * e2).epsilon(1e-4));
  CHECK(error.variance[0] < 1e-6 * e2);

  // Delta rules with beta = 1/2: u_0 = 1/2, M' = 1/2, F_1 = 1. The pair of query and key is 1 * 1/2, that of
  // keys 1/2 * 1 * 1/2, and X' = 1/2.
  const auto [right_delta, error_delta] =
      gradient_of_gates(two_tokens(reference::Transition::matrix), DType::bf16, true);
  CHECK(right_delta[1] == doctest::Approx(0.25));
  const double pairs = 2 * 0.25 + 3 * 0.0625;
  CHECK(error_delta.variance[1] > pairs * e2);
  CHECK(error_delta.variance[0] < 1e-6 * e2);
}

TEST_CASE("tokens of one gate have errors in common: a block of them, or what a state lasts, is one row") {
  Rows rows = two_tokens(reference::Transition::column);
  rows.shape.S = 1000;
  for (std::vector<double>* all : {&rows.q, &rows.k, &rows.v, &rows.dout}) all->assign(1000, 1e-2);
  const auto alike = [&](double log_decay, bool by_blocks) {
    rows.log_decay.assign(1000, log_decay);
    return gradient_of_gates(rows, DType::bf16, by_blocks).error.rows_alike;
  };
  CHECK(alike(-1, true) == std::vector<double>{64});
  CHECK(alike(-0.004, true)[0] == doctest::Approx(1000 / 5.0));
  CHECK(alike(0, true) == std::vector<double>{1000});
  CHECK(alike(-1, false) == std::vector<double>{1});
  CHECK(gradient_of_gates(one_token(reference::Gate::head), DType::bf16, true).error.rows_alike[0] == 1);
  CHECK(gradient_of_gates(one_token(reference::Gate::column), DType::bf16, true).error.rows_alike[0] == 1);
}

TEST_CASE("token by token a first token's gate is exactly 0") {
  const auto [right, error] = gradient_of_gates(one_token(reference::Gate::head), DType::bf16, false);
  CHECK(error.terms[0] == 0);
  CHECK(error.variance[0] == square(underflow(DType::bf16)));
}

}  // namespace cplab
