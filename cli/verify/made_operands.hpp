// What is made of inputs before attention (latent keys and values, convolved rows), and gradients that go
// back to these inputs: the parts of their errors that both kinds share (tolerance.hpp,
// linear_tolerance.hpp).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cli/verify/expected.hpp"

namespace cplab {

// Numbers squared: sums of them are of squares of terms.
std::vector<double> squares(std::span<const double> values);

// Of a gradient with cancellation in it the terms, else itself, squared.
std::vector<double> larger_squares(const ExpectedTensor& of);

// The result of sums of `summed` terms in the dtype of sums, whose squares add up to `terms`; `variance` is
// what it has of what went into it, and `roundings` what the plan rounds it to.
ExpectedTensor result_of_sums(DType dtype, std::vector<double> right, std::vector<double> variance,
                              std::vector<double> terms, std::int64_t summed, const Roundings& roundings);

// Parameters' gradients are summed over the ranks in the dtype of sums, in an order of its own: so many terms
// more.
inline constexpr std::int64_t summed_over_ranks = 64;

}  // namespace cplab
