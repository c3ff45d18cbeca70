// What the tolerances of tests/gpu take from numbers of 16 bits that stand for others.
#include "tests/gpu/linear_oracle.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

namespace cplab::testing {
namespace {

// As weigh() of kernels/families/linear/walk_mma.cuh.
double two_numbers(double x, DType dtype) {
  const double scale = dtype == DType::fp16 ? 2048 : 1, first = rounded(x, dtype);
  return first + rounded((x - first) * scale, dtype) / scale;
}

// The largest error over all fp32 numbers `step` apart in [2^exponent, 2^(exponent + 1)).
double largest_error(DType dtype, int numbers, int exponent, int step) {
  double largest = 0;
  for (int n = 0; n < 1 << 23; n += step) {
    const double x = std::ldexp(1 + n * 0x1p-23, exponent);
    largest = std::max(largest, std::fabs((numbers == 1 ? rounded(x, dtype) : two_numbers(x, dtype)) - x));
  }
  return largest;
}

}  // namespace

TEST_CASE("one number of 16 bits errs by u, two by u^2 / 2, and some number comes close to that") {
  for (const DType dtype : {DType::bf16, DType::fp16})
    for (const int numbers : {1, 2})
      for (const int exponent : {0, -9}) {
        const double allowed = std::ldexp(rounding_error(dtype, numbers).relative, exponent);
        // Steps through every part of the numbers: 257 is prime.
        const double largest = largest_error(dtype, numbers, exponent, 257);
        CHECK(largest <= allowed);
        CHECK(largest >= 0.9 * allowed);
      }
  CHECK(rounding_error(DType::bf16, 2).relative == 0x1p-17);
  CHECK(rounding_error(DType::fp16, 2).relative == 0x1p-23);
}

TEST_CASE("below its normal numbers fp16 errs by 2^-25, two of them by 2^-36") {
  CHECK(rounding_error(DType::fp16, 1).absolute == 0x1p-25);
  CHECK(rounding_error(DType::fp16, 2).absolute == 0x1p-36);
  for (const int exponent : {-15, -20, -26, -40}) {
    const double x_below = std::ldexp(1.0, exponent + 1);
    CHECK(largest_error(DType::fp16, 1, exponent, 257) <= std::min(0x1p-25, x_below));
    CHECK(largest_error(DType::fp16, 2, exponent, 257) <= 0x1p-36);
  }
  CHECK(rounding_error(DType::bf16, 2).absolute == 0);
}

TEST_CASE("a state of two terms of which the smaller is rounded: its bound by hand") {
  // 0.5 and 0.25: the magnitude 0.75 is less than ten times the spread, sqrt(0.3125). 80 roundings in fp32.
  const Sum sum{.value = 0.25, .magnitude = 0.75, .square = 0.3125};
  const Rounding rounding{
      .sums = DType::fp32, .nominal = DType::bf16, .result = DType::fp32, .terms = 80, .numbers = 2};
  const double by_hand = 0.75 * 0x1p-17 + 0.75 * 80 * 0x1p-24 + 2 * 0x1p-24 * 0.25;
  CHECK(bound(sum, 0, rounding) == doctest::Approx(1.01 * by_hand).epsilon(1e-12));
}

}  // namespace cplab::testing
