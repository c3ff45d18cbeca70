// Constants fitted by least squares, on problems that are solved by hand.
#include "cli/studies/least_squares.hpp"

#include <doctest/doctest.h>

#include <cmath>

namespace cplab {

TEST_CASE("rows that a constant explains are met, whatever the start, where the prior is loose") {
  // Residuals log(a x 3 / 6) and log(a x b / 10): a = 2, b = 5.
  const LeastSquares fit =
      fit_constants({{"a", 1, 1e6}, {"b", 1, 1e6}}, 0.01, [](const std::vector<double>& at) {
        return std::vector<double>{std::log(at[0] * 3 / 6), std::log(at[0] * at[1] / 10)};
      });
  CHECK(fit.at[0] == doctest::Approx(2).epsilon(1e-5));
  CHECK(fit.at[1] == doctest::Approx(5).epsilon(1e-5));
}

TEST_CASE("a prior and a row meet by their weights") {
  // One row says log a = log 4 within 0.1, the prior log a = 0 within log 2 / log 2 x 0.1: half way, a = 2.
  const LeastSquares fit = fit_constants({{"a", 1, std::exp(0.1)}}, 0.1, [](const std::vector<double>& at) {
    return std::vector<double>{std::log(at[0] / 4)};
  });
  CHECK(fit.at[0] == doctest::Approx(2).epsilon(1e-6));
  // A constant that no row depends on stays at its prior, without an interval of its own.
  const LeastSquares free = fit_constants({{"a", 0.5, 2}}, 0.03, [](const std::vector<double>&) {
    return std::vector<double>{0.01, -0.02};
  });
  CHECK(free.at[0] == doctest::Approx(0.5));
  CHECK(free.low[0] == doctest::Approx(0.5));
  CHECK(free.high[0] == doctest::Approx(0.5));
}

TEST_CASE("the interval is that of the mean of rows drawn anew") {
  // Sixteen rows, half at log a = -0.1 and half at 0.1, no prior to speak of: a = 1. The mean of sixteen
  // drawn with repetition spreads by 0.1 / 4; 5 and 95 % lie at 1.645 x 0.025 = 0.041, the next steps of
  // such means (0.0125 apart) being 0.0375 and 0.05.
  const LeastSquares fit = fit_constants({{"a", 1, 1e6}}, 0.1, [](const std::vector<double>& at) {
    std::vector<double> rows;
    for (int i = 0; i < 16; ++i) rows.push_back(std::log(at[0]) + (i % 2 == 0 ? 0.1 : -0.1));
    return rows;
  });
  CHECK(fit.at[0] == doctest::Approx(1).epsilon(1e-6));
  CHECK(std::log(fit.low[0]) > -0.051);
  CHECK(std::log(fit.low[0]) < -0.036);
  CHECK(std::log(fit.high[0]) < 0.051);
  CHECK(std::log(fit.high[0]) > 0.036);
}

TEST_CASE("a curved problem converges") {
  // 3 + a = 5 and 10 / a = 5, as errors of the logarithm: a = 2.
  const LeastSquares fit = fit_constants({{"a", 20, 1e6}}, 0.01, [](const std::vector<double>& at) {
    return std::vector<double>{std::log((3 + at[0]) / 5), std::log(10 / at[0] / 5)};
  });
  CHECK(fit.at[0] == doctest::Approx(2).epsilon(1e-4));
}

}  // namespace cplab
