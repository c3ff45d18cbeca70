// Random attention problems; see random_attention.hpp.
#include "tests/reference/random_attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>

namespace cplab::testing {

RandomAttention random_attention(const AttentionShape& shape, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_real_distribution<double> uniform(-1, 1);
  const auto tensor = [&](std::int64_t heads, std::int64_t width) {
    std::vector<double> values(static_cast<std::size_t>(shape.S * heads * width));
    for (double& value : values) value = uniform(generator);
    return values;
  };
  RandomAttention problem{.shape = shape, .q = {}, .k = {}, .v = {}, .dout = {}};
  problem.q = tensor(shape.H, shape.D);
  problem.k = tensor(shape.G, shape.D);
  problem.v = tensor(shape.G, shape.E);
  problem.dout = tensor(shape.H, shape.E);
  return problem;
}

AttentionResult first_formulation(const RandomAttention& problem) {
  return reference::dense_attention(problem.shape, problem.q, problem.k, problem.v, problem.dout);
}

reference::second::Result second_formulation(const RandomAttention& problem) {
  const AttentionShape& shape = problem.shape;
  return reference::second::attention({.S = shape.S,
                                       .H = shape.H,
                                       .G = shape.G,
                                       .D = shape.D,
                                       .E = shape.E,
                                       .scale = shape.scale,
                                       .left = shape.left,
                                       .right = shape.right,
                                       .q = problem.q,
                                       .k = problem.k,
                                       .v = problem.v,
                                       .dout = problem.dout});
}

std::string to_string(const AttentionShape& shape) {
  const auto field = [](const char* name, std::int64_t value) {
    return std::string(name) + "=" + std::to_string(value) + " ";
  };
  return field("S", shape.S) + field("H", shape.H) + field("G", shape.G) + field("D", shape.D) +
         field("E", shape.E) + field("left", shape.left) + field("right", shape.right) +
         "scale=" + std::to_string(shape.scale);
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return std::numeric_limits<double>::infinity();
  double largest = 0;
  for (std::size_t x = 0; x < a.size(); ++x) {
    const double difference = std::fabs(a[x] - b[x]);
    if (!(difference <= largest)) largest = difference;  // a NaN stays
    if (std::isnan(largest)) break;
  }
  return largest;
}

}  // namespace cplab::testing
