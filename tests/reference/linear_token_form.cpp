// Linear attention as a sum over pairs of tokens; see linear_token_form.hpp.
#include "tests/reference/linear_token_form.hpp"

#include <cmath>
#include <cstddef>
#include <random>

namespace cplab::testing {
namespace {

// Reads tensors [S,H,width], as magnitudes where a majorant is asked for.
struct Reader {
  const RandomLinear& p;
  bool majorant;

  double at(const std::vector<double>& tensor, std::int64_t t, std::int64_t h, std::int64_t width,
            std::int64_t x) const {
    const double value = tensor[static_cast<std::size_t>((t * p.shape.H + h) * width + x)];
    return majorant ? std::fabs(value) : value;
  }
  double dot(const std::vector<double>& a, std::int64_t i, const std::vector<double>& b, std::int64_t j,
             std::int64_t h, std::int64_t width) const {
    double sum = 0;
    for (std::int64_t x = 0; x < width; ++x) sum += at(a, i, h, width, x) * at(b, j, h, width, x);
    return sum;
  }
  double weight(std::int64_t i, std::int64_t j, std::int64_t h) const {
    return std::exp(-p.slopes[static_cast<std::size_t>(h)] * static_cast<double>(i - j));
  }
  double beta(std::int64_t t, std::int64_t h) const { return p.beta.empty() ? 1 : at(p.beta, t, h, 1, 0); }
  // Element (a, b) of T_t.
  double transition(std::int64_t t, std::int64_t h, std::int64_t a, std::int64_t b) const {
    const std::int64_t D = p.shape.D;
    const double same = a == b ? 1 : 0;
    if (p.shape.transition == Transition::decay) return same * weight(1, 0, h);
    const std::int64_t gates = p.shape.gates(), gate = gates == 1 ? 0 : b;
    const double factor = std::exp(p.log_decay[static_cast<std::size_t>((t * p.shape.H + h) * gates + gate)]);
    if (p.shape.transition == Transition::column) return same * factor;
    const double product = beta(t, h) * at(p.k, t, h, D, a) * at(p.k, t, h, D, b);
    return (same + (majorant ? product : -product)) * factor;
  }
};

}  // namespace

RandomLinear random_linear(const LinearShape& shape, const std::vector<double>& slopes, std::uint32_t seed) {
  std::mt19937 generator(seed);
  const auto tensor = [&](std::int64_t width, double low, double high) {
    std::uniform_real_distribution<double> uniform(low, high);
    std::vector<double> values(static_cast<std::size_t>(shape.S * shape.H * width));
    for (double& value : values) value = uniform(generator);
    return values;
  };
  RandomLinear problem;
  problem.shape = shape;
  problem.q = tensor(shape.D, -1, 1);
  problem.k = tensor(shape.D, -1, 1);
  problem.v = tensor(shape.E, -1, 1);
  problem.dout = tensor(shape.E, -1, 1);
  if (shape.transition == Transition::decay) problem.slopes = slopes;
  if (shape.transition != Transition::decay) problem.log_decay = tensor(shape.gates(), -1, 0);
  if (shape.transition == Transition::matrix) problem.beta = tensor(1, 0, 1);
  return problem;
}

std::string to_string(const LinearShape& shape) {
  const char* const names[] = {"decay", "column", "matrix"};
  return std::string(names[static_cast<int>(shape.transition)]) +
         (shape.gate == Gate::head ? " of heads" : "") + " S=" + std::to_string(shape.S) +
         " H=" + std::to_string(shape.H) + " D=" + std::to_string(shape.D) + " E=" + std::to_string(shape.E);
}

std::vector<double> token_form(const RandomLinear& problem, bool majorant) {
  const auto [S, H, D, E, transition, gate] = problem.shape;
  const Reader read{problem, majorant};
  std::vector<double> out(static_cast<std::size_t>(S * H * E));
  for (std::int64_t h = 0; h < H; ++h) {
    for (std::int64_t i = 0; i < S; ++i) {
      std::vector<double> row;  // q_i T_i ... T_{j+1}
      for (std::int64_t d = 0; d < D; ++d) row.push_back(read.at(problem.q, i, h, D, d));
      for (std::int64_t j = i; j >= 0; --j) {
        double score = 0;
        for (std::int64_t d = 0; d < D; ++d)
          score += row[static_cast<std::size_t>(d)] * read.at(problem.k, j, h, D, d);
        for (std::int64_t e = 0; e < E; ++e)
          out[static_cast<std::size_t>((i * H + h) * E + e)] +=
              score * read.beta(j, h) * read.at(problem.v, j, h, E, e);
        std::vector<double> next(row.size());
        for (std::int64_t a = 0; a < D; ++a)
          for (std::int64_t b = 0; b < D; ++b)
            next[static_cast<std::size_t>(b)] +=
                row[static_cast<std::size_t>(a)] * read.transition(j, h, a, b);
        row = next;
      }
    }
  }
  return out;
}

TokenGradients token_gradients(const RandomLinear& problem, bool majorant) {
  const auto [S, H, D, E, transition, gate] = problem.shape;
  const Reader read{problem, majorant};
  TokenGradients gradients{.dq = std::vector<double>(problem.q.size()),
                           .dk = std::vector<double>(problem.k.size()),
                           .dv = std::vector<double>(problem.v.size())};
  for (std::int64_t h = 0; h < H; ++h) {
    for (std::int64_t i = 0; i < S; ++i) {
      for (std::int64_t j = 0; j <= i; ++j) {
        const double w = read.weight(i, j, h);
        const double p = w * read.dot(problem.q, i, problem.k, j, h, D);
        const double ds = w * read.dot(problem.dout, i, problem.v, j, h, E);
        for (std::int64_t d = 0; d < D; ++d) {
          gradients.dq[static_cast<std::size_t>((i * H + h) * D + d)] += ds * read.at(problem.k, j, h, D, d);
          gradients.dk[static_cast<std::size_t>((j * H + h) * D + d)] += ds * read.at(problem.q, i, h, D, d);
        }
        for (std::int64_t e = 0; e < E; ++e)
          gradients.dv[static_cast<std::size_t>((j * H + h) * E + e)] +=
              p * read.at(problem.dout, i, h, E, e);
      }
    }
  }
  return gradients;
}

}  // namespace cplab::testing
