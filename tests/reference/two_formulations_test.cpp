// The dense reference against the second formulation, which shares neither code nor method with it.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <random>
#include <stdexcept>
#include <vector>

#include "tests/reference/fp64_roundoff.hpp"
#include "tests/reference/random_attention.hpp"

namespace cplab::testing {
namespace {

// Bounds on the difference of two backward stable evaluations in double, for entries of q, k, v and dout in
// [-1, 1]. Let u = 2^-53, n = S the longest sum over keys, and |s| <= scale D =: s_max.
//  - a score is off by at most (D + 1) u s_max, an LSE by that plus (n + 2) u (1 + |lse|) (the streaming
//    form rounds once per key), so a probability p = exp(s - lse) is off by relative e u with
//    e = 2 (D + 1) s_max + 2 (n + 2) (1 + s_max + log n) + 4;
//  - |dp_ij| <= E, and ds = p (dp - mean) is off by at most p 2 E (3 e + 2 n + E + 4) u: both p and the
//    mean carry e, and the mean is a sum of n terms (in the Jacobian form, n terms of both signs whose
//    absolute sum is at most 2 E p);
//  - sum_j p_ij = 1, and sum over the n (H/G) rows that share a key is at most n (H/G).
// Both formulations err, hence the factor 2.
struct Bounds {
  double out, lse, dq, dk, dv;
};

Bounds bounds_of(const AttentionShape& shape) {
  constexpr double u = fp64_roundoff;
  const auto n = static_cast<double>(shape.S);
  const auto D = static_cast<double>(shape.D);
  const auto E = static_cast<double>(shape.E);
  const double sharing = n * static_cast<double>(shape.H / shape.G);
  const double s_max = shape.scale * D;
  const double lse_max = s_max + std::log(n);
  const double e = 2 * (D + 1) * s_max + 2 * (n + 2) * (1 + lse_max) + 4;
  const double ds = 2 * E * (3 * e + 2 * n + E + 4);
  return {.out = 2 * u * (e + 2 * n + 2),
          .lse = 2 * u * ((D + 1) * s_max + (n + 2) * (1 + lse_max)),
          .dq = 2 * u * shape.scale * (ds + 2 * E * (n + 2)),
          .dk = 2 * u * shape.scale * sharing * (ds + 2 * E * (sharing + 2)),
          .dv = 2 * u * sharing * (e + sharing + 2)};
}

void compare(const AttentionShape& shape, std::uint32_t seed) {
  INFO(to_string(shape));
  const RandomAttention problem = random_attention(shape, seed);
  const AttentionResult first = first_formulation(problem);
  const reference::second::Result second = second_formulation(problem);
  const Bounds bounds = bounds_of(shape);
  CHECK(largest_difference(first.out, second.out) <= bounds.out);
  CHECK(largest_difference(first.lse, second.lse) <= bounds.lse);
  CHECK(largest_difference(first.max_logit, second.max_logit) <= bounds.lse);  // one of the scores in it
  CHECK(largest_difference(first.dq, second.dq) <= bounds.dq);
  CHECK(largest_difference(first.dk, second.dk) <= bounds.dk);
  CHECK(largest_difference(first.dv, second.dv) <= bounds.dv);
  // The bounds above are worst cases; in practice both agree to 1e-12.
  CHECK(largest_difference(first.out, second.out) <= 1e-12);
  CHECK(largest_difference(first.lse, second.lse) <= 1e-12);
  CHECK(largest_difference(first.dq, second.dq) <= 1e-12);
  CHECK(largest_difference(first.dk, second.dk) <= 1e-12);
  CHECK(largest_difference(first.dv, second.dv) <= 1e-12);
}

struct Window {
  std::int64_t left, right;
};
constexpr Window windows[] = {{-1, -1}, {-1, 0}, {0, 0}, {3, 0}, {3, 3}, {0, 5}, {-1, 2}, {2, -1}, {200, 0}};

}  // namespace

TEST_CASE("both formulations agree on every window, across block boundaries") {
  std::uint32_t seed = 1;
  for (const Window window : windows) {
    for (const std::int64_t S : {1, 2, 7, 64, 65, 131}) {
      compare({.S = S,
               .H = 2,
               .G = 1,
               .D = 5,
               .E = 3,
               .scale = 1 / std::sqrt(5.0),
               .left = window.left,
               .right = window.right},
              ++seed);
    }
  }
}

TEST_CASE("both formulations agree on random shapes") {
  std::mt19937 generator(20);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator);
  };
  for (int trial = 0; trial < 60; ++trial) {
    const std::int64_t G = draw(1, 3);
    compare({.S = draw(1, 70),
             .H = G * draw(1, 4),
             .G = G,
             .D = draw(1, 20),
             .E = draw(1, 20),
             .scale = static_cast<double>(draw(1, 10)) / 10,
             .left = draw(-2, 20),
             .right = draw(-2, 20)},
            static_cast<std::uint32_t>(trial));
  }
}

TEST_CASE("a forward without dout is the same forward") {
  const RandomAttention problem =
      random_attention({.S = 70, .H = 4, .G = 2, .D = 8, .E = 6, .scale = 0.4, .left = 9, .right = 0}, 5);
  const AttentionResult both = first_formulation(problem);
  const AttentionResult forward = reference::dense_attention(problem.shape, problem.q, problem.k, problem.v);
  CHECK(forward.out == both.out);
  CHECK(forward.lse == both.lse);
  CHECK(forward.dq.empty());
  CHECK(forward.dk.empty());
  CHECK(forward.dv.empty());
}

TEST_CASE("sizes that do not fit are refused") {
  const RandomAttention problem = random_attention({.S = 3, .H = 2, .G = 1, .D = 2, .E = 2}, 6);
  const std::vector<double> wrong(5);
  AttentionShape uneven = problem.shape;
  uneven.G = 4;
  CHECK_THROWS_AS(reference::dense_attention(problem.shape, wrong, problem.k, problem.v),
                  std::invalid_argument);
  CHECK_THROWS_AS(reference::dense_attention(problem.shape, problem.q, problem.k, wrong),
                  std::invalid_argument);
  CHECK_THROWS_AS(reference::dense_attention(problem.shape, problem.q, problem.k, problem.v, wrong),
                  std::invalid_argument);
  CHECK_THROWS_AS(reference::dense_attention(uneven, problem.q, problem.k, problem.v), std::invalid_argument);
}

TEST_CASE("an empty sequence has an empty result") {
  const AttentionResult result =
      reference::dense_attention({.S = 0, .H = 2, .G = 1, .D = 4, .E = 4}, {}, {}, {});
  CHECK(result.out.empty());
  CHECK(result.lse.empty());
}

}  // namespace cplab::testing
