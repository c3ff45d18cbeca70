// See made_operands.hpp.
#include "cli/verify/made_operands.hpp"

#include <algorithm>
#include <utility>

#include "cli/verify/rounding_errors.hpp"

namespace cplab {

std::vector<double> squares(std::span<const double> values) {
  std::vector<double> result(values.size());
  std::ranges::transform(values, result.begin(), square);
  return result;
}

std::vector<double> larger_squares(const ExpectedTensor& of) {
  std::vector<double> result = squares(of.right);
  for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::max(result[i], of.error.terms[i]);
  return result;
}

ExpectedTensor result_of_sums(DType dtype, std::vector<double> right, std::vector<double> variance,
                              std::vector<double> terms, std::int64_t summed, const Roundings& roundings) {
  ExpectedTensor all{std::move(right), {std::move(variance), std::move(terms)}};
  if (dtype == DType::fp64) {
    hold_to_fp64(all.right, all.error);
    return all;
  }
  const double e2 = rounding_variance(dtype), f2 = std::min(e2, rounding_variance(DType::fp32));
  for (std::size_t i = 0; i < all.right.size(); ++i) {
    const double of_terms = all.error.terms[i], value = all.right[i];
    all.error.variance[i] += f2 * static_cast<double>(summed) / 4 * (of_terms + square(value)) +
                             e2 * result_variance(roundings, of_terms, value) + square(underflow(dtype));
  }
  return all;
}

}  // namespace cplab
