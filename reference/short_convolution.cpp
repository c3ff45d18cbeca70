// Sums over pairs of tokens; see short_convolution.hpp.
#include "reference/short_convolution.hpp"

#include <stdexcept>

namespace cplab::reference {
namespace {

void require(const ConvolutionShape& s, std::span<const double> rows) {
  if (s.W < 1 || s.S < 0 || static_cast<std::int64_t>(rows.size()) != s.S * s.H * s.D)
    throw std::invalid_argument("a convolution's rows do not fit its shape");
}

void require_factors(const ConvolutionShape& s, std::span<const double> w) {
  if (static_cast<std::int64_t>(w.size()) != s.H * s.D * s.W)
    throw std::invalid_argument("a convolution's factors do not fit its shape");
}

// Calls visit(element of token t, element of the token it takes, factor), as indices, for every product.
template <class Visit>
void for_each_product(const ConvolutionShape& s, Visit visit) {
  const std::int64_t columns = s.H * s.D;
  for (std::int64_t t = 0; t < s.S; ++t)
    for (std::int64_t i = 0; i < s.W; ++i) {
      const std::int64_t taken = t - s.W + 1 + i;
      if (taken < 0) continue;
      for (std::int64_t c = 0; c < columns; ++c)
        visit(static_cast<std::size_t>(t * columns + c), static_cast<std::size_t>(taken * columns + c),
              static_cast<std::size_t>(c * s.W + i));
    }
}

}  // namespace

std::vector<double> short_convolution(const ConvolutionShape& s, std::span<const double> x,
                                      std::span<const double> w) {
  require(s, x), require_factors(s, w);
  std::vector<double> y(x.size());
  for_each_product(s, [&](std::size_t t, std::size_t taken, std::size_t i) { y[t] += w[i] * x[taken]; });
  return y;
}

std::vector<double> convolution_input_gradient(const ConvolutionShape& s, std::span<const double> dy,
                                               std::span<const double> w) {
  require(s, dy), require_factors(s, w);
  std::vector<double> dx(dy.size());
  for_each_product(s, [&](std::size_t t, std::size_t taken, std::size_t i) { dx[taken] += w[i] * dy[t]; });
  return dx;
}

std::vector<double> convolution_factor_gradient(const ConvolutionShape& s, std::span<const double> x,
                                                std::span<const double> dy) {
  require(s, x), require(s, dy);
  std::vector<double> dw(static_cast<std::size_t>(s.H * s.D * s.W));
  for_each_product(s, [&](std::size_t t, std::size_t taken, std::size_t i) { dw[i] += dy[t] * x[taken]; });
  return dw;
}

}  // namespace cplab::reference
