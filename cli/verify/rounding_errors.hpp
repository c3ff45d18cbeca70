// What the models of expected errors share (tolerance.hpp, linear_tolerance.hpp): the size of one rounding,
// and of the roundings that a plan subjects a result to.
#pragma once

#include "cli/verify/roundings.hpp"
#include "plan/problem.hpp"

namespace cplab {

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

// The relative error that fp64 is held to.
inline constexpr double fp64_tolerance = 1e-12;

}  // namespace cplab
