// What the models of expected errors share (tolerance.hpp, linear_tolerance.hpp): the size of one rounding,
// and of the roundings that a plan subjects a result to.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cli/verify/roundings.hpp"
#include "plan/problem.hpp"

namespace cplab {

inline std::size_t as_index(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

inline double square(double x) {
  return x * x;
}

// Half the distance of 1 and the next number.
double unit_roundoff(DType dtype);

// Values below the dtype's range become 0 or a multiple of its smallest number: below this the error no
// longer shrinks with the value.
double underflow(DType dtype);

// e^2 of rounding to the dtype: the variance of one rounding to nearest of a number near 1 (tolerance.hpp).
double rounding_variance(DType dtype);

// Roundings of a result whose terms have squares summing to `terms` and whose value is `value`, in units of
// e^2.
double result_variance(const Roundings& r, double terms, double value);

// What a sum that is kept in nominal adds to that where a single number is judged by itself, in units of e^2.
// Of many numbers two means are taken that need not hold for one: partial sums are half as large as the last,
// and mantissas are anywhere. Here all of the number may be there from the first of its sums on, just above a
// power of two, where a rounding has the variance u^2 / 3 < 2 e^2.
double single_sum_variance(const Roundings& r, double value);

// The relative error that fp64 is held to.
inline constexpr double fp64_tolerance = 1e-12;

}  // namespace cplab
