// Sinks, softcaps and biases of positions in double: gradients against finite differences, closed forms, and
// the two references against one another.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "reference/dense_attention.hpp"
#include "reference/dynamic_mask.hpp"

namespace cplab::testing {
namespace {

using reference::BiasForm;
using reference::dense_attention;
using reference::dynamic_mask_attention;
using reference::DynamicMaskResult;
using reference::DynamicMaskShape;

std::vector<double> normals(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution;
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

constexpr std::int64_t S = 9, H = 4, G = 2, D = 3, E = 2;

struct Case {
  DynamicMaskShape shape;
  std::vector<double> q = normals(S * H * D, 1), k = normals(S * G * D, 2), v = normals(S * G * E, 3),
                      dout = normals(S * H * E, 4), sinks, slopes, bias;

  explicit Case(BiasForm form, double softcap, bool sink, std::int64_t right) {
    shape.attention = {S, H, G, D, E, 0.7, -1, right};
    shape.form = form;
    shape.softcap = softcap;
    shape.both_ways = right != 0;
    if (sink) sinks = normals(H, 5);
    if (form == BiasForm::alibi) slopes = {0.5, 0.25, 0.125, 0.0625};
    if (form == BiasForm::buckets) shape.columns = 8, shape.max_distance = 6, bias = normals(H * 8, 6);
  }
  DynamicMaskResult run() {
    shape.sinks = sinks, shape.slopes = slopes;
    return dynamic_mask_attention(shape, q, k, v, bias, dout);
  }
  // sum of dout * out: what the gradients are of.
  double loss() {
    const std::vector<double> out = run().attention.out;
    return std::inner_product(out.begin(), out.end(), dout.begin(), 0.0);
  }
  // Central differences: an error of about step^2 of the third derivative, here below 1e-8.
  void check_gradient(std::vector<double>& of, const std::vector<double>& gradient) {
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

TEST_CASE("gradients with sinks, softcap and biases of positions are those of finite differences") {
  for (const BiasForm form : {BiasForm::none, BiasForm::alibi, BiasForm::buckets})
    for (const double softcap : {0.0, 1.5})
      for (const std::int64_t right : {std::int64_t{0}, std::int64_t{-1}}) {
        Case c(form, softcap, true, right);
        CAPTURE(static_cast<int>(form));
        CAPTURE(softcap);
        const DynamicMaskResult result = c.run();
        c.check_gradient(c.q, result.attention.dq);
        c.check_gradient(c.k, result.attention.dk);
        c.check_gradient(c.v, result.attention.dv);
        c.check_gradient(c.sinks, result.attention.dsink);
        if (form == BiasForm::buckets) c.check_gradient(c.bias, result.dbias);
      }
}

// All scores 0 and the sink 0: a row that sees n keys has n + 1 equal logits, one of them without a value.
TEST_CASE("a sink of 0 beside n equal scores leaves n / (n + 1) of the mean") {
  Case c(BiasForm::none, 0, true, 0);
  std::ranges::fill(c.q, 0.0), std::ranges::fill(c.sinks, 0.0);
  const auto dense = dense_attention(c.shape.attention, c.q, c.k, c.v, c.dout, {}, nullptr, c.sinks);
  for (std::int64_t i = 0; i < S; ++i)
    for (std::int64_t h = 0; h < H; ++h) {
      const double n = static_cast<double>(i + 1);
      CHECK(dense.lse[static_cast<std::size_t>(h * S + i)] == doctest::Approx(std::log(n + 1)));
      double mean = 0;
      for (std::int64_t j = 0; j <= i; ++j) mean += c.v[static_cast<std::size_t>((j * G + h / 2) * E)] / n;
      CHECK(dense.out[static_cast<std::size_t>((i * H + h) * E)] == doctest::Approx(mean * n / (n + 1)));
    }
}

TEST_CASE("both references have the same sinks, small and large") {
  for (const double shift : {-30.0, 0.0, 600.0}) {  // far below and far above all logits
    Case c(BiasForm::none, 0, true, 0);
    for (double& sink : c.sinks) sink += shift;
    const auto one = dense_attention(c.shape.attention, c.q, c.k, c.v, c.dout, {}, nullptr, c.sinks);
    const DynamicMaskResult other = c.run();
    const auto same = [](const std::vector<double>& a, const std::vector<double>& b) {
      REQUIRE(a.size() == b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12).scale(1e-300));
    };
    same(one.out, other.attention.out), same(one.lse, other.attention.lse);
    same(one.dq, other.attention.dq), same(one.dk, other.attention.dk), same(one.dv, other.attention.dv);
    same(one.dsink, other.attention.dsink);
    // The sink is no key: the largest logit does not know it.
    CHECK(one.max_logit == dense_attention(c.shape.attention, c.q, c.k, c.v).max_logit);
  }
}

// From Hugging Face's _relative_position_bucket(relative_position, bidirectional, num_buckets=32,
// max_distance=128).
TEST_CASE("buckets are T5's") {
  DynamicMaskShape shape;
  shape.attention = {1000, 1, 1, 1, 1, 1, -1, -1};
  shape.form = BiasForm::buckets;
  shape.columns = 32, shape.max_distance = 128;
  const auto bucket = [&](std::int64_t distance) { return shape.index_of(500, 0, 500 + distance); };
  CHECK(bucket(5) == 0);  // one way: later keys are as near as the query itself
  CHECK(bucket(0) == 0);
  CHECK(bucket(-15) == 15);
  CHECK(bucket(-16) == 16);
  CHECK(bucket(-20) == 17);
  CHECK(bucket(-100) == 30);
  CHECK(bucket(-113) == 31);
  CHECK(bucket(-400) == 31);
  shape.both_ways = true;
  CHECK(bucket(0) == 0);
  CHECK(bucket(-7) == 7);
  CHECK(bucket(-8) == 8);
  CHECK(bucket(-127) == 15);
  CHECK(bucket(1) == 17);
  CHECK(bucket(16) == 26);
  CHECK(bucket(400) == 31);
}

}  // namespace
}  // namespace cplab::testing
