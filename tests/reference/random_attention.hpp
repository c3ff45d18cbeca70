// Random attention problems, and one problem asked of both formulations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reference/dense_attention.hpp"
#include "tests/reference/second_formulation.hpp"

namespace cplab::testing {

using reference::AttentionResult;
using reference::AttentionShape;

struct RandomAttention {
  AttentionShape shape;
  std::vector<double> q, k, v, dout;  // uniform in [-1, 1]
};

RandomAttention random_attention(const AttentionShape& shape, std::uint32_t seed);

AttentionResult first_formulation(const RandomAttention& problem);
reference::second::Result second_formulation(const RandomAttention& problem);

// "S=5 H=4 ...", for messages.
std::string to_string(const AttentionShape& shape);

double largest_difference(const std::vector<double>& a, const std::vector<double>& b);

}  // namespace cplab::testing
