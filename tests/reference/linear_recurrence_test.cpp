// The linear recurrence against numbers worked by hand, the sum over pairs of tokens, central differences of
// its own forward, and what its states promise.
//
// Rounding: out is a polynomial of the inputs and factors; every term of it is rounded at most
// n = S (2 D + E + 6) + 2 D + 2 E + 4 times on its way through the states (each step: factor, product, sum,
// the D terms of k.S or the E of v.M, and the strength; at the ends the terms of q.S and dout.v), whichever
// of two formulations computes it, so two of them differ by at most 2 n u times the sum of the magnitudes of
// the terms, which token_form(problem, true) gives. exp(-slope n) against n factors exp(-slope): counted by
// the steps.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>
#include <vector>

#include "tests/reference/fp64_roundoff.hpp"
#include "tests/reference/linear_token_form.hpp"

namespace cplab::testing {
namespace {

double roundings(const LinearShape& shape) {
  return static_cast<double>(shape.S * (2 * shape.D + shape.E + 6) + 2 * shape.D + 2 * shape.E + 4);
}

// The largest |a - b| in units of its bound 2 n u majorant; more than 1 is wrong, also for a NaN.
double worst_share(const std::vector<double>& a, const std::vector<double>& b,
                   const std::vector<double>& majorant, double n) {
  REQUIRE(a.size() == b.size());
  REQUIRE(a.size() == majorant.size());
  double worst = 0;
  for (std::size_t x = 0; x < a.size(); ++x) {
    const double bound = 2 * n * fp64_roundoff * majorant[x] + std::numeric_limits<double>::min();
    const double share = std::fabs(a[x] - b[x]) / bound;
    if (!(share <= worst)) worst = std::isnan(share) ? std::numeric_limits<double>::infinity() : share;
  }
  return worst;
}

struct Kind {
  Transition transition;
  Gate gate = Gate::column;
};
constexpr Kind kinds[] = {{Transition::decay},
                          {Transition::column},
                          {Transition::column, Gate::head},
                          {Transition::matrix},
                          {Transition::matrix, Gate::head}};

}  // namespace

// One head, D = E = 1, lambda = 1/2, k = (1, 2, 3), v = (4, 2, 1), q = (1, 2, 1), dout = (1, 1, 2):
// S = 4; 4/2 + 4 = 6; 6/2 + 3 = 6. out = 4, 12, 6. dq = dout S = 4, 6, 12.
// R_2 = 1*2 = 2; R_1 = 1 + 2*1 = 3; R_0 = 1.5 + 1 = 2.5. dk = v R = 10, 6, 2. dv = k R = 2.5, 6, 6.
// States: S(p) = S_{p-1}/2 = 0, 2, 3, 3; R(p) = R_p = 2.5, 3, 2, 0.
TEST_CASE("three tokens of linear attention by hand") {
  const std::vector<double> q = {1, 2, 1}, k = {1, 2, 3}, v = {4, 2, 1}, dout = {1, 1, 2};
  const std::vector<double> slopes = {std::log(2)};
  const std::vector<std::int64_t> edges = {0, 1, 2, 3};
  const LinearResult result =
      reference::linear_recurrence({.S = 3}, {.q = q, .k = k, .v = v, .dout = dout, .slopes = slopes}, edges);
  const auto check = [](const std::vector<double>& values, const std::vector<double>& expected) {
    REQUIRE(values.size() == expected.size());
    // exp(-log 2) is off by a few u, and everything is a sum of positive terms of second order in it.
    for (std::size_t x = 0; x < values.size(); ++x)
      CHECK(std::fabs(values[x] - expected[x]) <= 16 * fp64_roundoff * expected[x]);
  };
  check(result.out, {4, 12, 6});
  check(result.dq, {4, 6, 12});
  check(result.dk, {10, 6, 2});
  check(result.dv, {2.5, 6, 6});
  check(result.key_states, {0, 2, 3, 3});
  check(result.query_states, {2.5, 3, 2, 0});
}

// The delta rule, D = 2, E = 1, no decay (g = 0), both betas 1/2, k_0 = (1, 0), v_0 = 4: S_0 = (2, 0).
// k_1 = (1, 1), v_1 = 1: u = v_1 - k_1 S_0 = -1, S_1 = S_0 + u k_1 / 2 = (3/2, -1/2). q_1 = (2, 1): out_1 =
// 5/2. dout = (0, 1): M_1 = q_1 = (2, 1). k_1 M_1 = 3: dv_1 = 3/2, dbeta_1 = 3 u = -3, dk_1 = (u M_1 - 3 S_0)
// / 2 = (-2 - 6, -1) / 2 = (-4, -1/2), dg_1 = (M_1 - 3/2 k_1) * S_0 = (1, 0). M_0 = M_1 - 3/2 k_1 = (1/2,
// -1/2). u_0 = 4, x = 0: dk_0 = 4 M_0 / 2 = (1, -1), dv_0 = 1/4, dbeta_0 = 2.
TEST_CASE("two tokens of the delta rule by hand") {
  const std::vector<double> q = {0, 0, 2, 1}, k = {1, 0, 1, 1}, v = {4, 1}, dout = {0, 1};
  const std::vector<double> log_decay(4), beta = {0.5, 0.5};
  const LinearShape shape{.S = 2, .H = 1, .D = 2, .E = 1, .transition = Transition::matrix};
  const LinearResult result = reference::linear_recurrence(
      shape, {.q = q, .k = k, .v = v, .dout = dout, .slopes = {}, .log_decay = log_decay, .beta = beta},
      std::vector<std::int64_t>{1, 2});
  CHECK(result.out == std::vector<double>{0, 2.5});
  CHECK(result.dq == std::vector<double>{0, 0, 1.5, -0.5});
  CHECK(result.dk == std::vector<double>{1, -1, -4, -0.5});
  CHECK(result.dv == std::vector<double>{0.25, 1.5});
  CHECK(result.dbeta == std::vector<double>{2, -3});
  CHECK(result.dlog_decay == std::vector<double>{0, 0, 1, 0});
  CHECK(result.key_states == std::vector<double>{2, 0, 1.5, -0.5});
  CHECK(result.query_states == std::vector<double>{0.5, -0.5, 0, 0});
}

// One gate for all columns is as if every column had it, and its gradient is the sum of theirs: exactly, for
// the two differ in nothing but the last sum.
TEST_CASE("a gate of heads is one of columns that are alike") {
  for (const Transition transition : {Transition::column, Transition::matrix}) {
    const LinearShape shape{.S = 9, .H = 2, .D = 4, .E = 3, .transition = transition, .gate = Gate::head};
    const RandomLinear of_heads = random_linear(shape, {}, 7);
    RandomLinear of_columns = of_heads;
    of_columns.shape.gate = Gate::column;
    of_columns.log_decay.clear();
    for (const double gate : of_heads.log_decay)
      of_columns.log_decay.insert(of_columns.log_decay.end(), 4, gate);
    const std::vector<std::int64_t> edges = {0, 4, 9};
    const LinearResult a = reference::linear_recurrence(shape, of_heads.inputs(), edges),
                       b = reference::linear_recurrence(of_columns.shape, of_columns.inputs(), edges);
    CHECK(a.out == b.out);
    CHECK(a.dq == b.dq);
    CHECK(a.dk == b.dk);
    CHECK(a.dv == b.dv);
    CHECK(a.dbeta == b.dbeta);
    CHECK(a.key_states == b.key_states);
    CHECK(a.query_states == b.query_states);
    REQUIRE(a.dlog_decay.size() == 18);
    REQUIRE(b.dlog_decay.size() == 72);
    for (std::size_t g = 0; g < a.dlog_decay.size(); ++g) {
      double sum = 0, magnitude = 0;
      for (std::size_t d = 4 * g; d < 4 * g + 4; ++d)
        sum += b.dlog_decay[d], magnitude += std::fabs(b.dlog_decay[d]);
      // Sums of 12 products in another order; each column's may cancel, so a bound from the columns alone is
      // widened by the largest product there can be.
      CHECK(std::fabs(a.dlog_decay[g] - sum) <= 1e-13 * (1 + magnitude));
    }
  }
}

TEST_CASE("the linear recurrence equals the sum over pairs of tokens") {
  std::uint32_t seed = 0;
  for (const auto& [transition, gate] : kinds) {
    for (const std::int64_t S : {1, 2, 17, 60}) {
      const LinearShape shape{.S = S, .H = 4, .D = 3, .E = 5, .transition = transition, .gate = gate};
      INFO(to_string(shape));
      const RandomLinear problem = random_linear(shape, {0, 1e-4, 0.5, 8}, ++seed);
      const LinearResult result = reference::linear_recurrence(shape, problem.inputs());
      CHECK(worst_share(result.out, token_form(problem), token_form(problem, true), roundings(shape)) <= 1);
      if (transition != Transition::decay) continue;
      const TokenGradients exact = token_gradients(problem);
      const TokenGradients majorant = token_gradients(problem, true);
      CHECK(worst_share(result.dq, exact.dq, majorant.dq, roundings(shape)) <= 1);
      CHECK(worst_share(result.dk, exact.dk, majorant.dk, roundings(shape)) <= 1);
      CHECK(worst_share(result.dv, exact.dv, majorant.dv, roundings(shape)) <= 1);
    }
  }
}

// L = sum dout.out is of degree 1 in each entry of q and v, at most 2 in one of k or beta, so a central
// difference is exact at any step; in g it is a + b exp(g), whose difference is dL/dg sinh(h)/h. With h = 1/4
// nothing is left but rounding: 2 n u times the sum of the magnitudes of the terms of L, with k and beta h
// larger (at most 5/4 in magnitude, g at most 1/4: at most 4 times per factor and token, far less in truth),
// divided by h. A wrong sign or factor in a gradient of order 1 is far above that.
TEST_CASE("gradients of the linear recurrence equal central differences") {
  constexpr double step = 0.25;
  std::uint32_t seed = 50;
  for (const auto& [transition, gate] : kinds) {
    const LinearShape shape{.S = 7, .H = 2, .D = 3, .E = 2, .transition = transition, .gate = gate};
    INFO(to_string(shape));
    RandomLinear problem = random_linear(shape, {0.1, 1}, ++seed);
    const LinearResult result = reference::linear_recurrence(shape, problem.inputs());
    double magnitude = 0;
    const auto loss = [&](bool majorant) {
      const std::vector<double> out = majorant
                                          ? token_form(problem, true)
                                          : reference::linear_recurrence(shape, problem.inputs(false)).out;
      double sum = 0;
      for (std::size_t x = 0; x < out.size(); ++x)
        sum += majorant ? std::fabs(problem.dout[x]) * out[x] : problem.dout[x] * out[x];
      return sum;
    };
    const auto check = [&](std::vector<double>& input, const std::vector<double>& gradient,
                           double correction) {
      REQUIRE(gradient.size() == input.size());
      for (std::size_t x = 0; x < input.size(); ++x) {
        const double value = input[x];
        input[x] = value + step;
        const double above = loss(false);
        magnitude = loss(true);
        input[x] = value - step;
        const double below = loss(false);
        magnitude = std::fmax(magnitude, loss(true));
        input[x] = value;
        const double tolerance =
            2 * (roundings(shape) + static_cast<double>(input.size())) * fp64_roundoff * magnitude / step;
        REQUIRE(tolerance < 1e-6);
        CHECK(std::fabs((above - below) / (2 * step) * correction - gradient[x]) <= tolerance);
      }
    };
    check(problem.q, result.dq, 1);
    check(problem.k, result.dk, 1);
    check(problem.v, result.dv, 1);
    if (!problem.beta.empty()) check(problem.beta, result.dbeta, 1);
    if (!problem.log_decay.empty()) check(problem.log_decay, result.dlog_decay, step / std::sinh(step));
  }
}

// The loss of the tokens behind edge p is linear in the state at p: its part that the keys before p give is
// the inner product of S(p) with R(p). So the sum of q.dq over queries from p on, which is dout.out, minus
// what they have of their own keys, is <S(p), R(p)>; and the state of the first p tokens alone, as a shorter
// sequence, is S(p) again.
TEST_CASE("states at an edge split the sequence in two") {
  std::uint32_t seed = 80;
  for (const auto& [transition, gate] : kinds) {
    const std::int64_t S = 23;
    const LinearShape shape{.S = S, .H = 2, .D = 3, .E = 4, .transition = transition, .gate = gate};
    const RandomLinear problem = random_linear(shape, {1e-4, 0.5}, ++seed);
    const std::vector<double> majorant = token_form(problem, true);
    for (const std::int64_t p : {0, 1, 9, 22}) {
      INFO(to_string(shape), " edge ", p);
      const std::vector<std::int64_t> edges = {p};
      const LinearResult whole = reference::linear_recurrence(shape, problem.inputs(), edges);
      const auto cut = [&](const std::vector<double>& tensor, std::int64_t begin, std::int64_t end) {
        const auto width = static_cast<std::int64_t>(tensor.size()) / S;
        return std::vector<double>(tensor.begin() + begin * width, tensor.begin() + end * width);
      };
      const auto part = [&](std::int64_t begin, std::int64_t end) {
        RandomLinear tokens = problem;
        tokens.shape.S = end - begin;
        for (auto member : {&RandomLinear::q, &RandomLinear::k, &RandomLinear::v, &RandomLinear::dout,
                            &RandomLinear::log_decay, &RandomLinear::beta})
          tokens.*member = cut(problem.*member, begin, end);
        return tokens;
      };
      const RandomLinear before = part(0, p), after = part(p, S);
      const LinearResult left =
          reference::linear_recurrence(before.shape, before.inputs(), std::vector<std::int64_t>{p});
      const LinearResult right =
          reference::linear_recurrence(after.shape, after.inputs(), std::vector<std::int64_t>{0});
      CHECK(left.key_states == whole.key_states);  // the same operations in the same order
      CHECK(right.query_states == whole.query_states);
      double passed = 0, expected = 0, magnitude = 0;
      for (std::size_t x = 0; x < whole.key_states.size(); ++x)
        passed += whole.key_states[x] * whole.query_states[x];
      const std::vector<double> out = cut(whole.out, p, S);
      const std::vector<double> largest = cut(majorant, p, S);
      for (std::size_t x = 0; x < out.size(); ++x) {
        expected += after.dout[x] * (out[x] - right.out[x]);
        magnitude += std::fabs(after.dout[x]) * largest[x];
      }
      const double n = roundings(shape) + static_cast<double>(out.size());
      CHECK(std::fabs(passed - expected) <= 4 * n * fp64_roundoff * magnitude);
    }
  }
}

// Slope 0 sums everything: with k = v = q = 1 out_i = i + 1 exactly. Slope 8 keeps next to nothing, and the
// geometric sum is (1 - lambda^(i+1)) / (1 - lambda). Whatever the slope, nothing overflows or is NaN.
TEST_CASE("long sequences with slopes 0 to 8 have the geometric sums") {
  const std::int64_t S = 20000;
  const std::vector<double> slopes = {0, 1e-4, 0.5, 1, 8};
  const std::vector<double> ones(static_cast<std::size_t>(S) * slopes.size(), 1);
  const LinearResult result = reference::linear_recurrence(
      {.S = S, .H = std::ssize(slopes)}, {.q = ones, .k = ones, .v = ones, .dout = ones, .slopes = slopes});
  const auto at = [&](std::int64_t t, std::size_t h) {
    return static_cast<std::size_t>(t) * slopes.size() + h;
  };
  for (std::size_t h = 0; h < slopes.size(); ++h) {
    for (const std::int64_t t : {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}, S - 1}) {
      const auto n = static_cast<double>(t + 1);
      const double sum = slopes[h] == 0 ? n : std::expm1(-slopes[h] * n) / std::expm1(-slopes[h]);
      // A term that is n steps old is rounded 2 n times and weighs exp(-slope n): at most 2 n u of the sum.
      const double tolerance = (2 * n + 8) * fp64_roundoff * sum;
      CHECK(std::fabs(result.out[at(t, h)] - sum) <= tolerance);
      CHECK(std::fabs(result.dq[at(t, h)] - sum) <= tolerance);
      CHECK(std::fabs(result.dk[at(S - 1 - t, h)] - sum) <= tolerance);
      CHECK(std::fabs(result.dv[at(S - 1 - t, h)] - sum) <= tolerance);
    }
  }
}

TEST_CASE("the linear recurrence says what does not fit") {
  const std::vector<double> one = {1}, none, two = {1, 1};
  const auto run = [](const LinearShape& shape, const LinearInputs& inputs,
                      std::vector<std::int64_t> edges = {}) {
    reference::linear_recurrence(shape, inputs, edges);
  };
  CHECK_NOTHROW(run({.S = 1}, {.q = one, .k = one, .v = one, .slopes = one}, {0, 1}));
  CHECK_NOTHROW(run({.S = 0}, {.q = none, .k = none, .v = none, .slopes = one}, {0}));
  CHECK_THROWS_AS(run({.S = 1}, {.q = two, .k = one, .v = one, .slopes = one}), std::invalid_argument);
  CHECK_THROWS_AS(run({.S = 1}, {.q = one, .k = one, .v = one, .dout = two, .slopes = one}),
                  std::invalid_argument);
  CHECK_THROWS_AS(run({.S = 1}, {.q = one, .k = one, .v = one}), std::invalid_argument);
  CHECK_THROWS_AS(run({.S = 1}, {.q = one, .k = one, .v = one, .slopes = one}, {2}), std::invalid_argument);
  const std::vector<double> negative = {-1e-3};
  CHECK_THROWS_AS(run({.S = 1}, {.q = one, .k = one, .v = one, .slopes = negative}), std::invalid_argument);
  CHECK_THROWS_AS(run({.S = 1}, {.q = one, .k = one, .v = one, .slopes = one, .log_decay = one}),
                  std::invalid_argument);
  CHECK_THROWS_AS(
      run({.S = 1, .transition = Transition::matrix}, {.q = one, .k = one, .v = one, .log_decay = one}),
      std::invalid_argument);
}

}  // namespace cplab::testing
