// Constants fitted to relative errors by least squares, each held by a prior.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace cplab {

// A positive constant: `prior` before any row, which one standard deviation takes to prior x or / factor.
struct FittedConstant {
  std::string name;
  double prior = 1, factor = 2;
};

struct LeastSquares {
  std::vector<double> at;         // the constants
  std::vector<double> low, high;  // 90 % of the fits to rows drawn anew, with repetition, from those given
};

// Minimizes sum (r / sigma)^2 + sum (log(at / prior) / log(factor))^2 over the residuals r at `at`, by
// Gauss-Newton steps in the logarithms. `sigma`: how far a row may be off for reasons that no constant stands
// for. Deterministic; the intervals are of the model linear around `at`.
LeastSquares fit_constants(
    const std::vector<FittedConstant>& constants, double sigma,
    const std::function<std::vector<double>(const std::vector<double>& at)>& residuals);

}  // namespace cplab
