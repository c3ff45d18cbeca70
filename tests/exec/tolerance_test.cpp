// The sizes of roundings that tolerances are made of, held against sums that are really rounded.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <random>

#include "cli/verify/rounding_errors.hpp"
#include "kernels/cpu/convert.hpp"

namespace cplab {
namespace {

double rounded_narrow(double x, DType dtype) {
  const auto narrow = static_cast<float>(x);
  return dtype == DType::bf16 ? kernels::float_from_bf16(kernels::bf16_from_float(narrow))
                              : kernels::float_from_fp16(kernels::fp16_from_float(narrow));
}

// Root mean square of the relative error of a sum that is rounded after each of `additions`. `first` is in it
// from the start; what is added is up to one of its last places.
double error_of_sums(double first, int additions, DType dtype) {
  std::mt19937_64 random(7);
  const double last_place = 2 * unit_roundoff(dtype);
  std::uniform_real_distribution<double> some(-last_place, last_place);
  constexpr int trials = 20000;
  double squares = 0;
  for (int trial = 0; trial < trials; ++trial) {
    const double start = first + some(random);
    double exact = start, sum = rounded_narrow(start, dtype);
    for (int n = 1; n < additions; ++n) {
      const double x = some(random);
      exact += x;
      sum = rounded_narrow(sum + x, dtype);
    }
    squares += square(sum / exact - 1);
  }
  return std::sqrt(squares / trials);
}

}  // namespace

TEST_CASE("a number that is all there from its first sum on errs as expected of a single sum") {
  for (const DType dtype : {DType::bf16, DType::fp16}) {
    const double e2 = rounding_variance(dtype);
    for (const int additions : {2, 8, 16}) {
      const Roundings roundings{.running = static_cast<double>(additions),
                                .operations = static_cast<double>(additions)};
      const double expected = std::sqrt(e2 * single_sum_variance(roundings, 1));
      const double of_many = std::sqrt(e2 * result_variance(roundings, 1, 1));
      CAPTURE(name(dtype));
      CAPTURE(additions);
      // Uniform in +-u / m for a mantissa m: sqrt(additions / 3) u / m; 3 % for 20000 random numbers.
      for (const double first : {1.1, 1.3, 1.6, 1.85}) {
        const double error = error_of_sums(first, additions, dtype);
        CAPTURE(first);
        CHECK(error ==
              doctest::Approx(std::sqrt(additions / 3.0) * unit_roundoff(dtype) / first).epsilon(0.03));
        CHECK(error < expected);
      }
      const double worst = error_of_sums(1.1, additions, dtype);
      CHECK(worst > 0.85 * expected);  // no wider than needed
      if (additions > 2) CHECK(worst > of_many);
    }
  }
}

TEST_CASE("no sum is kept in nominal, nothing is added to the tolerance of a single one") {
  CHECK(single_sum_variance({.casts = 3, .operations = 0}, 5) == 0);
  CHECK(single_sum_variance({.running = 1, .operations = 4}, 3) == doctest::Approx(2 * 4 * 9));
}

}  // namespace cplab
