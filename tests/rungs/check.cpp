// Attention in double precision by its formula; see check.hpp.
#include "tests/rungs/check.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <random>

#include "kernels/kernels.hpp"

namespace cplab::kernels::cuda::hopper::rungs {

namespace {

constexpr std::size_t D = 128;

std::vector<std::uint16_t> random_values(std::size_t count, double most, std::mt19937_64& generator) {
  std::uniform_real_distribution<double> uniform(-most, most);
  std::vector<std::uint16_t> values(count);
  for (std::size_t n = 0; n < count; ++n)
    store_element(values.data(), DType::bf16, static_cast<std::int64_t>(n), uniform(generator));
  return values;
}

std::vector<double> widened(std::span<const std::uint16_t> values) {
  std::vector<double> wide(values.size());
  for (std::size_t n = 0; n < values.size(); ++n)
    wide[n] = load_element(values.data(), DType::bf16, static_cast<std::int64_t>(n));
  return wide;
}

// Row `row` of all heads' rows; it sees keys first .. first + seen - 1.
void attend_row(Case& problem, std::span<const double> q, std::span<const double> k,
                std::span<const double> v, std::size_t row, std::size_t first, std::size_t seen) {
  std::vector<double> p(seen);
  for (std::size_t j = 0; j < seen; ++j) {
    double sum = 0;
    for (std::size_t d = 0; d < D; ++d) sum += q[row * D + d] * k[(first + j) * D + d];
    p[j] = sum / std::sqrt(static_cast<double>(D));
  }
  const double highest = *std::max_element(p.begin(), p.end());
  double sum = 0;
  for (double& weight : p) sum += weight = std::exp(weight - highest);
  problem.lse[row] = highest + std::log(sum);
  for (std::size_t j = 0; j < seen; ++j)
    for (std::size_t d = 0; d < D; ++d) problem.out[row * D + d] += p[j] / sum * v[(first + j) * D + d];
}

}  // namespace

Case random_case(const Shape& shape, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto S = static_cast<std::size_t>(shape.S);
  const std::size_t rows = static_cast<std::size_t>(shape.heads) * S;
  Case problem{.shape = shape,
               .q = random_values(rows * D, 6, generator),
               .k = random_values(rows * D, 1, generator),
               .v = random_values(rows * D, 1, generator),
               .out = std::vector<double>(rows * D),
               .lse = std::vector<double>(rows)};
  const std::vector<double> q = widened(problem.q), k = widened(problem.k), v = widened(problem.v);
  for (std::size_t row = 0; row < rows; ++row)
    attend_row(problem, q, k, v, row, row / S * S, shape.causal ? row % S + 1 : S);
  return problem;
}

Errors errors_of(const Case& expected, std::span<const std::uint16_t> out, std::span<const float> lse) {
  Errors errors;
  const auto worse = [](double a, double b) { return a >= b || a != a ? a : b; };  // NaN stays
  for (std::size_t row = 0; row < expected.lse.size(); ++row) {
    double difference = 0, size = 0;
    for (std::size_t at = row * D; at < (row + 1) * D; ++at) {
      const double value = load_element(out.data(), DType::bf16, static_cast<std::int64_t>(at));
      difference += (value - expected.out[at]) * (value - expected.out[at]);
      size += expected.out[at] * expected.out[at];
    }
    errors.out = worse(errors.out, std::sqrt(difference / size));
    errors.lse = worse(errors.lse, std::abs(static_cast<double>(lse[row]) - expected.lse[row]));
  }
  return errors;
}

std::string Errors::text() const {
  char text[96];
  std::snprintf(text, sizeof(text), "out %.2e of a row, lse %.1e", out, lse);
  return text;
}

}  // namespace cplab::kernels::cuda::hopper::rungs
