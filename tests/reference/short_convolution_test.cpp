// The convolution before Q, K and V in double: values by hand, and gradients against finite differences of
// the forward, which know none of the formulas.
#include <doctest/doctest.h>

#include <cstdint>
#include <numeric>
#include <random>
#include <stdexcept>
#include <vector>

#include "reference/short_convolution.hpp"

namespace cplab::testing {
namespace {

using namespace cplab::reference;

std::vector<double> normals(std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 engine(seed);
  std::normal_distribution<double> distribution(0, 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = distribution(engine);
  return values;
}

TEST_CASE("short convolution: the last factor is the token's own, the first one that of the farthest token") {
  const ConvolutionShape shape{5, 1, 1, 3};
  const std::vector<double> x{1, 10, 100, 1000, 10000}, w{3, 2, 1};
  CHECK(short_convolution(shape, x, w) == std::vector<double>{1, 12, 123, 1230, 12300});
  // Each token's share in what follows: 1 + 2 + 3 of ones, less at the end.
  CHECK(convolution_input_gradient(shape, std::vector<double>(5, 1), w) ==
        std::vector<double>{6, 6, 6, 3, 1});
  CHECK(convolution_factor_gradient(shape, x, std::vector<double>(5, 1)) ==
        std::vector<double>{111, 1111, 11111});
}

TEST_CASE("short convolution: columns and heads do not mix, fewer tokens than factors are right") {
  const ConvolutionShape shape{2, 2, 2, 4};
  const std::vector<double> x{1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<double> w(16);
  std::iota(w.begin(), w.end(), 0);
  const std::vector<double> y = short_convolution(shape, x, w);
  CHECK(y == std::vector<double>{3, 14, 33, 60, 15 + 2, 42 + 12, 77 + 30, 120 + 56});
}

TEST_CASE("short convolution: gradients are those of finite differences") {
  for (const ConvolutionShape shape : {ConvolutionShape{7, 2, 3, 4}, {3, 1, 2, 8}, {6, 1, 1, 2}}) {
    std::vector<double> x = normals(shape.S * shape.H * shape.D, 1),
                        w = normals(shape.H * shape.D * shape.W, 2);
    const std::vector<double> dy = normals(shape.S * shape.H * shape.D, 3);
    const auto loss = [&] {
      const std::vector<double> y = short_convolution(shape, x, w);
      return std::inner_product(y.begin(), y.end(), dy.begin(), 0.0);
    };
    // Linear in each of them: differences are exact but for roundings.
    const auto check = [&](std::vector<double>& of, const std::vector<double>& gradient) {
      REQUIRE(of.size() == gradient.size());
      for (std::size_t i = 0; i < of.size(); ++i) {
        const double value = of[i];
        of[i] = value + 1;
        const double above = loss();
        of[i] = value - 1;
        const double below = loss();
        of[i] = value;
        CHECK(gradient[i] == doctest::Approx((above - below) / 2).epsilon(1e-12).scale(1));
      }
    };
    check(x, convolution_input_gradient(shape, dy, w));
    check(w, convolution_factor_gradient(shape, x, dy));
  }
}

TEST_CASE("short convolution: sizes that do not fit are refused") {
  const std::vector<double> six(6), two(2);
  CHECK_THROWS_AS((void)short_convolution({3, 1, 2, 2}, six, two), std::invalid_argument);
  CHECK_THROWS_AS((void)short_convolution({2, 1, 2, 2}, six, two), std::invalid_argument);
  CHECK_THROWS_AS((void)convolution_factor_gradient({3, 1, 2, 2}, six, two), std::invalid_argument);
}

}  // namespace
}  // namespace cplab::testing
