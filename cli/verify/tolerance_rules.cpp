// From expected errors to tolerances; see tolerance.hpp.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "cli/verify/rounding_errors.hpp"
#include "cli/verify/tolerance.hpp"

namespace cplab {

double relative_tolerance(DType dtype, double variance_sum, double scale, std::int64_t rows,
                          std::int64_t width) {
  if (dtype == DType::fp64) return fp64_tolerance;
  if (scale <= 0 || rows <= 0) return 0;
  const double sample = static_cast<double>(rows) * std::sqrt(static_cast<double>(width));
  return safety_factor * (1 + 3 / std::sqrt(2 * sample)) * std::sqrt(variance_sum) / scale;
}

void hold_to_fp64(std::span<const double> right, ExpectedError& error) {
  const double tiny2 = square(underflow(DType::fp64));
  for (std::size_t i = 0; i < right.size(); ++i) {
    error.variance[i] =
        square(fp64_tolerance / safety_factor) * std::max(error.terms[i], square(right[i])) + tiny2;
  }
}

double element_tolerance(double variance) {
  return 5 * safety_factor * std::sqrt(variance);
}

}  // namespace cplab
