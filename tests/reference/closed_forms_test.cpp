// The dense reference on problems whose answer can be written down.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <vector>

#include "tests/reference/fp64_roundoff.hpp"
#include "tests/reference/random_attention.hpp"

namespace cplab::testing {
namespace {

double dot(const double* a, const double* b, std::int64_t count) {
  double sum = 0;
  for (std::int64_t x = 0; x < count; ++x) sum += a[x] * b[x];
  return sum;
}

}  // namespace

// Window (0, 0): every row sees itself only. p = 1, so out = v, lse = scale q.k, dv = sum of dout over the
// group; ds = 1 (dp - dp) = 0, so dq = dk = 0, all without rounding but for q.k and the sum over the group.
TEST_CASE("one visible key: out is its value, lse its score, and the softmax has no gradient") {
  constexpr double u = fp64_roundoff;
  const AttentionShape shape{.S = 67, .H = 4, .G = 2, .D = 9, .E = 5, .scale = 0.3, .left = 0, .right = 0};
  const RandomAttention problem = random_attention(shape, 1);
  const AttentionResult result = first_formulation(problem);
  for (std::int64_t i = 0; i < shape.S; ++i) {
    for (std::int64_t h = 0; h < shape.H; ++h) {
      const std::int64_t g = h / 2;
      for (std::int64_t x = 0; x < shape.E; ++x) {
        CHECK(result.out[static_cast<std::size_t>((i * shape.H + h) * shape.E + x)] ==
              problem.v[static_cast<std::size_t>((i * shape.G + g) * shape.E + x)]);
      }
      const double score =
          shape.scale * dot(&problem.q[static_cast<std::size_t>((i * shape.H + h) * shape.D)],
                            &problem.k[static_cast<std::size_t>((i * shape.G + g) * shape.D)], shape.D);
      // Two orders of summation of D products of size at most 1, scaled.
      CHECK(std::fabs(result.lse[static_cast<std::size_t>(h * shape.S + i)] - score) <=
            2 * (9 + 1) * u * shape.scale * 9);
    }
    for (std::int64_t g = 0; g < shape.G; ++g) {
      for (std::int64_t x = 0; x < shape.E; ++x) {
        const auto at = [&](std::int64_t h) {
          return problem.dout[static_cast<std::size_t>((i * shape.H + h) * shape.E + x)];
        };
        CHECK(result.dv[static_cast<std::size_t>((i * shape.G + g) * shape.E + x)] ==
              at(2 * g) + at(2 * g + 1));
      }
    }
  }
  for (const double value : result.dq) CHECK(value == 0);
  for (const double value : result.dk) CHECK(value == 0);
}

// Equal keys: all n visible scores are s = scale q.k, so p = 1/n, out = mean of v, lse = s + log n. Row i of
// the causal mask sees n = i + 1 keys. dv_j = sum over i >= j of dout_i / (i + 1); dq = scale k sum_j ds = 0.
TEST_CASE("equal keys: out is the mean of the values seen") {
  constexpr double u = fp64_roundoff;
  const std::int64_t S = 100;
  const AttentionShape shape{.S = S, .H = 1, .G = 1, .D = 4, .E = 3, .scale = 0.5, .left = -1, .right = 0};
  RandomAttention problem = random_attention(shape, 2);
  for (std::size_t x = 4; x < problem.k.size(); ++x) problem.k[x] = problem.k[x % 4];
  const AttentionResult result = first_formulation(problem);
  // Sums of up to S terms of size at most 1 against the same in another order, plus a division.
  const double tolerance = 2 * (100 + 2) * u;
  std::vector<double> sum(3);
  for (std::int64_t i = 0; i < S; ++i) {
    const auto n = static_cast<double>(i + 1);
    const double score = 0.5 * dot(&problem.q[static_cast<std::size_t>(i * 4)], problem.k.data(), 4);
    // |score| <= 2 with D + 1 roundings, log n <= 5 with a few: 40 u in all.
    CHECK(std::fabs(result.lse[static_cast<std::size_t>(i)] - (score + std::log(n))) <= 40 * u);
    for (std::size_t x = 0; x < 3; ++x) {
      const std::size_t at = static_cast<std::size_t>(i) * 3 + x;
      sum[x] += problem.v[at];
      CHECK(std::fabs(result.out[at] - sum[x] / n) <= tolerance);
    }
  }
  std::vector<double> tail(3);
  for (std::int64_t j = S - 1; j >= 0; --j) {
    for (std::size_t x = 0; x < 3; ++x) {
      const std::size_t at = static_cast<std::size_t>(j) * 3 + x;
      tail[x] += problem.dout[at] / static_cast<double>(j + 1);
      // sum of 1/n up to 100 is below 5.2: the same bound with that in place of 1.
      CHECK(std::fabs(result.dv[at] - tail[x]) <= 5.2 * tolerance);
    }
  }
  // |sum_j ds_j| is the rounding of ds_j = p (dp - mean), |dp| <= 3: at most 3 (2 S + 8) u, times scale.
  for (const double value : result.dq) CHECK(std::fabs(value) <= 0.5 * 2 * 3 * (2 * 100 + 8) * u);
}

// Two tokens, scores 0 and c, full mask: p = (1 - w, w) with w = 1 / (1 + exp(-c)), v = (0, 1), dout = 1:
// out = w, lse = log(1 + exp(c)), d out / d score_1 = w (1 - w). With D = 1, q = c, k = (0, 1), scale = 1:
// dq = w (1 - w), dk_0 = -q w (1 - w), dk_1 = q w (1 - w), each over the two equal rows for dk.
TEST_CASE("two keys: the logistic function and its derivative") {
  constexpr double u = fp64_roundoff;
  for (const double c : {-700.0, -30.0, -1.0, 0.0, 0.5, 3.0, 30.0, 700.0}) {
    INFO("c = ", c);
    const std::vector<double> q = {c, c};
    const std::vector<double> k = {0, 1};
    const std::vector<double> dout = {1, 1};
    const AttentionResult result = reference::dense_attention({.S = 2}, q, k, k, dout);
    const double w = 1 / (1 + std::exp(-c));
    const double derivative = std::exp(-std::fabs(c)) / std::pow(1 + std::exp(-std::fabs(c)), 2);
    const double softplus = std::fmax(c, 0) + std::log1p(std::exp(-std::fabs(c)));
    // Relative bounds: a handful of roundings each. lse is max + log(sum), absolute error 4 u where the sum
    // is near 1. ds_1 = p_1 (1 - p_1) and ds_0 = -p_0 p_1 lose to cancellation at most 4 u p in absolute
    // terms.
    CHECK(std::fabs(result.out[0] - w) <= 8 * u * w);
    CHECK(std::fabs(result.lse[1] - softplus) <= 4 * u * (1 + softplus));
    CHECK(std::fabs(result.dq[0] - derivative) <= 8 * u * (derivative + w));
    CHECK(std::fabs(result.dk[1] - 2 * c * derivative) <= 16 * u * std::fabs(c) * (derivative + w));
    CHECK(std::fabs(result.dk[0] + 2 * c * derivative) <= 16 * u * std::fabs(c) * (derivative + w));
    CHECK(std::fabs(result.dv[1] - 2 * w) <= 16 * u * w);
  }
}

}  // namespace cplab::testing
