// Keys of their own beside sinks, softcaps and biases, in double: plain loops over the definition, and
// gradients against finite differences of these loops.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "reference/dense_attention.hpp"
#include "reference/dynamic_mask.hpp"

namespace cplab::testing {
namespace {

using reference::BiasForm;
using reference::DynamicMaskResult;
using reference::DynamicMaskShape;

constexpr std::int64_t H = 4, G = 2, D = 3, E = 2;
constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> normals(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

// S queries on N keys; query i stands on key i + first_at.
struct Case {
  std::int64_t S, N, first_at;
  DynamicMaskShape shape;
  std::vector<double> q, k, v, dout, sinks, slopes, bias;

  Case(std::int64_t queries, std::int64_t keys, bool bottom_right, BiasForm form, double softcap, bool sink,
       std::int64_t left, std::int64_t right)
      : S(queries), N(keys), first_at(bottom_right ? keys - queries : 0) {
    shape.attention = {S, H, G, D, E, 0.7, left, right};
    shape.attention.keys = N, shape.attention.first_at = first_at;
    shape.form = form, shape.softcap = softcap, shape.both_ways = right != 0;
    q = normals(S * H * D, 1), k = normals(N * G * D, 2), v = normals(N * G * E, 3);
    dout = normals(S * H * E, 4);
    if (sink) sinks = normals(H, 5);
    if (form == BiasForm::alibi) slopes = {0.5, 0.25, 0.125, 0.0625};
    if (form == BiasForm::buckets) shape.columns = 8, shape.max_distance = 6, bias = normals(H * 8, 6);
    if (form == BiasForm::keys) shape.bias_heads = G, shape.columns = 1, bias = normals(N * G, 7);
    if (form == BiasForm::full)
      shape.bias_heads = H, shape.columns = N + 1, bias = normals(S * H * (N + 1), 8);
    shape.sinks = sinks, shape.slopes = slopes;
  }
  Case(const Case&) = delete;  // the shape has views of these vectors

  // Of T5's table of 8 with distances up to 6: 0 to 3, 4, 5, 6 and more lie in 0 .. 7 one way (the borders
  // of four logarithmic buckets from 4 to 6 are 4, 4.4, 4.9, 5.4); both ways 0, 1, then 2 (to 3.4) and 3.
  static std::int64_t bucket(std::int64_t behind, bool both_ways) {
    const std::int64_t far = both_ways ? std::abs(behind) : std::max<std::int64_t>(behind, 0);
    if (!both_ways) return far < 5 ? far : far == 5 ? 6 : 7;
    return (behind < 0 ? 4 : 0) + (far < 2 ? far : far <= 3 ? 2 : 3);
  }

  double bias_of(std::int64_t i, std::int64_t h, std::int64_t j) const {
    const std::int64_t behind = i + first_at - j;
    switch (shape.form) {
      case BiasForm::alibi: return -slopes[at(h)] * static_cast<double>(std::abs(behind));
      case BiasForm::buckets: return bias[at(h * 8 + bucket(behind, shape.both_ways))];
      case BiasForm::keys: return bias[at(j * G + h / (H / G))];
      case BiasForm::full: return bias[at((i * H + h) * (N + 1) + j)];
      default: return 0;
    }
  }

  struct Rows {
    std::vector<double> out, lse;
  };
  Rows by_loops() const {
    Rows rows{std::vector<double>(at(S * H * E), 0), std::vector<double>(at(H * S), -infinity)};
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < S; ++i) {
        double sum = sinks.empty() ? 0 : std::exp(sinks[at(h)]);
        std::vector<double> weights(at(N), 0);
        for (std::int64_t j = 0; j < N; ++j) {
          const std::int64_t ahead = j - (i + first_at);
          const std::int64_t left = shape.attention.left, right = shape.attention.right;
          if ((left >= 0 && ahead < -left) || (right >= 0 && ahead > right)) continue;
          double z = bias_of(i, h, j);
          for (std::int64_t d = 0; d < D; ++d)
            z += 0.7 * q[at((i * H + h) * D + d)] * k[at((j * G + h / (H / G)) * D + d)];
          if (shape.softcap > 0) z = shape.softcap * std::tanh(z / shape.softcap);
          sum += weights[at(j)] = std::exp(z);
        }
        if (sum == 0) continue;
        rows.lse[at(h * S + i)] = std::log(sum);
        for (std::int64_t j = 0; j < N; ++j)
          for (std::int64_t x = 0; x < E; ++x)
            rows.out[at((i * H + h) * E + x)] += weights[at(j)] / sum * v[at((j * G + h / (H / G)) * E + x)];
      }
    return rows;
  }
  double loss() const {
    const Rows rows = by_loops();
    double sum = 0;
    for (std::size_t i = 0; i < dout.size(); ++i) sum += dout[i] * rows.out[i];
    return sum;
  }
  DynamicMaskResult run() const { return dynamic_mask_attention(shape, q, k, v, bias, dout); }

  // Central differences: an error of about step^2 of the third derivative, here below 1e-8.
  void check_gradient(std::vector<double>& of, const std::vector<double>& gradient) const {
    REQUIRE(gradient.size() == of.size());
    constexpr double step = 1e-5;
    for (std::size_t i = 0; i < of.size(); ++i) {
      const double held = of[i];
      of[i] = held + step;
      const double above = loss();
      of[i] = held - step;
      const double below = loss();
      of[i] = held;
      CHECK(gradient[i] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6).scale(1));
    }
  }
};

void same(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isinf(b[i]))
      CHECK(a[i] == b[i]);
    else
      CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12).scale(1));
}

template <class Check>
void for_each_case(Check check) {
  struct Band {
    std::int64_t left, right;
  };
  for (const auto& [queries, keys] : {std::pair<std::int64_t, std::int64_t>{4, 9}, {9, 4}, {1, 7}, {6, 6}})
    for (const bool bottom_right : {false, true})
      for (const BiasForm form :
           {BiasForm::none, BiasForm::alibi, BiasForm::buckets, BiasForm::keys, BiasForm::full})
        for (const bool sink : {false, true})
          for (const Band band : {Band{-1, -1}, Band{-1, 0}, Band{2, 0}, Band{1, 2}}) {
            CAPTURE(queries);
            CAPTURE(keys);
            CAPTURE(bottom_right);
            CAPTURE(static_cast<int>(form));
            CAPTURE(sink);
            CAPTURE(band.left);
            CAPTURE(band.right);
            Case c(queries, keys, bottom_right, form, sink ? 1.5 : 0, sink, band.left, band.right);
            check(c);
          }
}

TEST_CASE("keys of their own: out and lse are those of plain loops, with every bias, from either corner") {
  for_each_case([](const Case& c) {
    const DynamicMaskResult result = c.run();
    const Case::Rows rows = c.by_loops();
    same(result.attention.out, rows.out);
    same(result.attention.lse, rows.lse);
  });
}

TEST_CASE("keys of their own: gradients are finite differences, of keys and queries that see nothing too") {
  int turn = 0;
  for_each_case([&](Case& c) {
    if (turn++ % 3 != 0) return;  // each of the four numbers of keys and queries, forms and bands still meets
    const DynamicMaskResult result = c.run();
    c.check_gradient(c.q, result.attention.dq);
    c.check_gradient(c.k, result.attention.dk);
    c.check_gradient(c.v, result.attention.dv);
    if (!c.sinks.empty()) c.check_gradient(c.sinks, result.attention.dsink);
    if (c.shape.has_numbers()) c.check_gradient(c.bias, result.dbias);
  });
}

TEST_CASE("keys of their own: both references have the same sinks, where queries see no key too") {
  for (const bool bottom_right : {false, true})
    for (const std::int64_t left : {std::int64_t{-1}, std::int64_t{2}}) {
      const Case c(9, 4, bottom_right, BiasForm::none, 0, true, left, 0);
      const auto one = dense_attention(c.shape.attention, c.q, c.k, c.v, c.dout, {}, nullptr, c.sinks);
      const DynamicMaskResult other = c.run();
      same(one.out, other.attention.out), same(one.lse, other.attention.lse);
      same(one.dq, other.attention.dq), same(one.dk, other.attention.dk), same(one.dv, other.attention.dv);
      same(one.dsink, other.attention.dsink);
    }
}

}  // namespace
}  // namespace cplab::testing
