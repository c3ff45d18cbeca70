// See least_squares.hpp.
#include "cli/studies/least_squares.hpp"

#include <algorithm>
#include <cmath>
#include <random>
#include <stdexcept>
#include <utility>

namespace cplab {
namespace {

using Vector = std::vector<double>;
using Rows = std::vector<Vector>;

// By Gauss's elimination with pivots.
Vector solved(Rows a, Vector b) {
  const std::size_t n = b.size();
  for (std::size_t i = 0; i < n; ++i) {
    std::size_t pivot = i;
    for (std::size_t r = i; r < n; ++r)
      if (std::abs(a[r][i]) > std::abs(a[pivot][i])) pivot = r;
    std::swap(a[i], a[pivot]);
    std::swap(b[i], b[pivot]);
    if (a[i][i] == 0) throw std::logic_error("least squares without a prior for some constant");
    for (std::size_t r = 0; r < n; ++r) {
      if (r == i) continue;
      const double factor = a[r][i] / a[i][i];
      for (std::size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (std::size_t i = 0; i < n; ++i) b[i] /= a[i][i];
  return b;
}

// One problem around `x`, the logarithms: residuals and their derivatives, and how far x is from the prior.
struct Linear {
  Vector residual, from_prior, weight;  // weight of the prior
  Rows slope;                           // by constant, then by row
  double sigma = 1;

  // The step to the minimum, with every row counted so often.
  Vector step(const Vector& count) const {
    const std::size_t n = slope.size();
    Rows a(n, Vector(n, 0));
    Vector b(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      a[i][i] = weight[i];
      b[i] = -weight[i] * from_prior[i];
      for (std::size_t row = 0; row < residual.size(); ++row) {
        const double part = count[row] * slope[i][row] / (sigma * sigma);
        b[i] -= part * residual[row];
        for (std::size_t j = 0; j < n; ++j) a[i][j] += part * slope[j][row];
      }
    }
    return solved(std::move(a), std::move(b));
  }
};

Vector exponentials(const Vector& x) {
  Vector result;
  for (const double each : x) result.push_back(std::exp(each));
  return result;
}

}  // namespace

LeastSquares fit_constants(const std::vector<FittedConstant>& constants, double sigma,
                           const std::function<Vector(const Vector&)>& residuals) {
  constexpr int rounds = 12, draws = 1000;
  constexpr double difference = 0.02, longest_step = 0.5, precise = 1e-4;
  const std::size_t n = constants.size();
  Vector x, prior;
  for (const FittedConstant& each : constants) prior.push_back(std::log(each.prior));
  x = prior;
  Linear linear;
  linear.sigma = sigma;
  for (const FittedConstant& each : constants)
    linear.weight.push_back(1 / (std::log(each.factor) * std::log(each.factor)));
  for (int round = 0; round < rounds; ++round) {
    linear.residual = residuals(exponentials(x));
    linear.slope.assign(n, {});
    linear.from_prior.assign(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      Vector moved = x;
      moved[i] += difference;
      linear.slope[i] = residuals(exponentials(moved));
      for (std::size_t row = 0; row < linear.residual.size(); ++row)
        linear.slope[i][row] = (linear.slope[i][row] - linear.residual[row]) / difference;
      linear.from_prior[i] = x[i] - prior[i];
    }
    const Vector step = linear.step(Vector(linear.residual.size(), 1));
    double most = 0;
    for (const double each : step) most = std::max(most, std::abs(each));
    if (most < precise) break;
    for (std::size_t i = 0; i < n; ++i) x[i] += step[i] * std::min(1.0, longest_step / most);
  }
  std::mt19937 random(1);
  Rows drawn(n);
  for (int draw = 0; draw < draws; ++draw) {
    Vector count(linear.residual.size(), 0);
    for (std::size_t i = 0; i < count.size(); ++i) count[random() % count.size()] += 1;
    const Vector step = linear.step(count);
    for (std::size_t i = 0; i < n; ++i) drawn[i].push_back(x[i] + step[i]);
  }
  LeastSquares fit;
  fit.at = exponentials(x);
  for (Vector& each : drawn) {
    std::sort(each.begin(), each.end());
    fit.low.push_back(std::exp(each[draws / 20]));
    fit.high.push_back(std::exp(each[draws - 1 - draws / 20]));
  }
  return fit;
}

}  // namespace cplab
