// The causal convolution over a few tokens that models put before Q, K and V of linear attention, in double,
// of one sequence, each column by itself: y_t = sum over i < W of w_i x_(t - W + 1 + i), where x is 0 before
// the first token. Its gradients: dx_t = sum of w_i dy_(t + W - 1 - i), dy being 0 behind the last token, and
// dw_i = sum over t of dy_t x_(t - W + 1 + i).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cplab::reference {

struct ConvolutionShape {
  std::int64_t S = 0, H = 0, D = 0;  // tokens, heads, columns
  std::int64_t W = 0;                // factors of each column
};

// x, y [S,H,D]; w [H,D,W].
std::vector<double> short_convolution(const ConvolutionShape&, std::span<const double> x,
                                      std::span<const double> w);
std::vector<double> convolution_input_gradient(const ConvolutionShape&, std::span<const double> dy,
                                               std::span<const double> w);
std::vector<double> convolution_factor_gradient(const ConvolutionShape&, std::span<const double> x,
                                                std::span<const double> dy);

}  // namespace cplab::reference
