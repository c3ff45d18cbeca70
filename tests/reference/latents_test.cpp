// Keys and values from latents in double: gradients of attention with respect to latents and weights against
// finite differences of its forward, which know none of the formulas; and weights that change nothing.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "reference/dense_attention.hpp"
#include "reference/latents.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::reference;

std::vector<double> normals(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution(0, 0.6);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

struct Case {
  LatentShape shape{7, 3, 4, 2, 3, 2};
  std::vector<double> q = normals(7 * 3 * 5, 1), dout = normals(7 * 3 * 2, 2), latent = normals(7 * 4, 3),
                      rope = normals(7 * 2, 4), of_keys = normals(3 * 4 * 3, 5),
                      of_values = normals(3 * 4 * 2, 6);

  LatentInputs inputs() const { return {latent, rope, of_keys, of_values}; }
  AttentionResult attention(bool backward) const {
    const LatentKeys keys = project(shape, inputs());
    const AttentionShape of{7, 3, 3, 5, 2, 0.7, -1, 0};
    return dense_attention(of, q, keys.k, keys.v, backward ? dout : std::vector<double>());
  }
  double loss() const {
    const std::vector<double> out = attention(false).out;
    return std::inner_product(out.begin(), out.end(), dout.begin(), 0.0);
  }
  // Central differences with a step of 2^-12: off by about 1e-7 of the third derivative.
  void check_gradient(std::vector<double>& of, const std::vector<double>& gradient) {
    constexpr double step = 0x1p-12;
    REQUIRE(gradient.size() == of.size());
    for (std::size_t x = 0; x < of.size(); ++x) {
      const double value = of[x];
      of[x] = value + step;
      const double above = loss();
      of[x] = value - step;
      const double below = loss();
      of[x] = value;
      CHECK(gradient[x] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-5).scale(1));
    }
  }
};

TEST_CASE("gradients of latents, rope keys and weights are those of finite differences") {
  Case c;
  const AttentionResult right = c.attention(true);
  const LatentGradients gradients = latent_gradients(c.shape, c.inputs(), right.dk, right.dv);
  c.check_gradient(c.latent, gradients.dlatent);
  c.check_gradient(c.rope, gradients.drope_key);
  c.check_gradient(c.of_keys, gradients.dkey_weights);
  c.check_gradient(c.of_values, gradients.dvalue_weights);
}

// Weights that are the identity: K is the latent with the rope key behind it, V the latent.
TEST_CASE("weights that are the identity hand latents on, and sum gradients over the heads") {
  const LatentShape shape{5, 2, 3, 1, 3, 3};
  const std::vector<double> latent = normals(15, 1), rope = normals(5, 2), dk = normals(5 * 2 * 4, 3),
                            dv = normals(5 * 2 * 3, 4), identity{1, 0, 0, 0, 1, 0, 0, 0, 1};
  std::vector<double> both = identity;
  both.insert(both.end(), identity.begin(), identity.end());
  const LatentInputs inputs{latent, rope, both, both};
  const LatentKeys keys = project(shape, inputs);
  const LatentGradients gradients = latent_gradients(shape, inputs, dk, dv);
  for (std::size_t i = 0; i < 5; ++i)
    for (std::size_t x = 0; x < 3; ++x) {
      double sum = 0;
      for (std::size_t h = 0; h < 2; ++h) {
        CHECK(keys.k[(i * 2 + h) * 4 + x] == latent[i * 3 + x]);
        CHECK(keys.k[(i * 2 + h) * 4 + 3] == rope[i]);
        CHECK(keys.v[(i * 2 + h) * 3 + x] == latent[i * 3 + x]);
        sum += dk[(i * 2 + h) * 4 + x] + dv[(i * 2 + h) * 3 + x];
      }
      CHECK(gradients.dlatent[i * 3 + x] == doctest::Approx(sum));
      CHECK(gradients.drope_key[i] == doctest::Approx(dk[i * 8 + 3] + dk[i * 8 + 7]));
    }
}

}  // namespace
}  // namespace cplab::testing
