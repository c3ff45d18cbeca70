// See convolved_inputs.hpp.
#include "cli/verify/convolved_inputs.hpp"

#include <algorithm>
#include <utility>

#include "cli/verify/made_operands.hpp"
#include "cli/verify/rounding_errors.hpp"

namespace cplab {
namespace {

struct Names {
  std::string_view gradient, of_factors;
};
constexpr std::array<Names, 3> names{{{"dq", "dconv_q"}, {"dk", "dconv_k"}, {"dv", "dconv_v"}}};

}  // namespace

// One sum of W products, rounded once.
ConvolvedInputs::ConvolvedInputs(const Problem& p, std::int64_t tokens, const std::array<Rows, 3>& of)
    : dtype_(p.dtype), in_(of) {
  const double e2 = rounding_variance(dtype_), f2 = std::min(e2, rounding_variance(DType::fp32)),
               of_sum = f2 * static_cast<double>(p.convolution) / 4;
  for (std::size_t n = 0; n < in_.size(); ++n) {
    shapes_[n] = {tokens, p.heads, n < 2 ? p.head_size : p.value_size, p.convolution};
    made_[n] = reference::short_convolution(shapes_[n], in_[n].rows, in_[n].factors);
    std::vector<double>& variance = n == 0 ? errors_.q : n == 1 ? errors_.k : errors_.v;
    variance =
        reference::short_convolution(shapes_[n], squares(in_[n].rows), squares(in_[n].factors));  // of terms
    for (std::size_t i = 0; i < variance.size(); ++i)
      variance[i] = of_sum * variance[i] + (e2 + of_sum) * square(made_[n][i]) + square(underflow(dtype_));
  }
}

void ConvolvedInputs::take(reference::LinearInputs& inputs) const {
  inputs.q = made_[0], inputs.k = made_[1], inputs.v = made_[2];
}

void ConvolvedInputs::go_back(Expected& expected) const {
  Roundings once;
  once.tiles = true;
  once.tile_count = 1;
  for (std::size_t n = 0; n < in_.size(); ++n) {
    ExpectedTensor& of = expected.at(names[n].gradient);
    const reference::ConvolutionShape& shape = shapes_[n];
    const std::vector<double> terms = larger_squares(of), factors2 = squares(in_[n].factors),
                              rows2 = squares(in_[n].rows);
    ExpectedTensor factors = result_of_sums(
        dtype_, reference::convolution_factor_gradient(shape, in_[n].rows, of.right),
        reference::convolution_factor_gradient(shape, rows2, of.error.variance),
        reference::convolution_factor_gradient(shape, rows2, terms), shape.S + summed_over_ranks, {});
    of = result_of_sums(dtype_, reference::convolution_input_gradient(shape, of.right, in_[n].factors),
                        reference::convolution_input_gradient(shape, of.error.variance, factors2),
                        reference::convolution_input_gradient(shape, terms, factors2), shape.W, once);
    expected[names[n].of_factors] = std::move(factors);
  }
}

void ConvolvedInputs::without_tokens(const Problem& p, Expected& expected) {
  for (std::size_t n = 0; n < names.size(); ++n) {
    const std::vector<double> zeros(
        static_cast<std::size_t>(p.heads * (n < 2 ? p.head_size : p.value_size) * p.convolution));
    expected[names[n].of_factors] = {zeros, {zeros, zeros}};
  }
}

}  // namespace cplab
