// Dynamic mask attention by brute force; see masked_cases.hpp.
#include <algorithm>
#include <cmath>

#include "tests/kernels/masked_cases.hpp"

namespace cplab::testing {
std::int64_t MaskedProblem::column_of(std::int64_t key) const {
  for (const RowRun& run : column_runs) {
    if (key < run.count) return run.begin + key * run.step;
    key -= run.count;
  }
  return 0;
}

std::size_t MaskedProblem::index(std::int64_t heads, std::int64_t h, std::int64_t i, std::int64_t j) const {
  const std::int64_t head = h / (problem.sizes.H / heads);
  return full ? place_of(i, heads, head, columns, column_of(j)) : place_of(j, heads, head, 1, 0);
}

MaskedExpected expected_of(const MaskedProblem& masked) {
  const Problem& problem = masked.problem;
  const auto& [nq, nk, H, G, D, E] = problem.sizes;
  const std::vector<int> visible = visible_pairs(problem);
  MaskedExpected result;
  Expected& r = result.attention;
  const auto sized = [](std::int64_t rows, std::int64_t heads, std::int64_t width) {
    return std::vector<double>(static_cast<std::size_t>(rows * heads * width));
  };
  r.out = r.out_majorant = sized(nq, H, E);
  r.lse = r.delta = sized(nq, H, 1);
  r.dq = r.dq_majorant = sized(nq, H, D);
  r.dk = r.dk_majorant = sized(nk, G, D);
  r.dv = r.dv_majorant = sized(nk, G, E);
  result.dbias = result.dbias_majorant = std::vector<double>(masked.bias.size());
  result.bias_counts.resize(masked.bias.size());
  result.row_counts.resize(static_cast<std::size_t>(nq));
  result.key_counts.resize(static_cast<std::size_t>(nk));
  std::vector<std::int64_t> keys;
  std::vector<double> p, slope;
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h / (H / G);
    for (std::int64_t i = 0; i < nq; ++i) {
      keys.clear(), p.clear(), slope.clear();
      for (std::int64_t j = 0; j < nk; ++j) {
        if (visible[static_cast<std::size_t>(i * nk + j)] == 0) continue;
        if (!masked.keep.empty() && masked.keep[masked.index(masked.keep_heads, h, i, j)] == 0) continue;
        double z = masked.bias.empty() ? 0 : masked.bias[masked.index(masked.bias_heads, h, i, j)];
        double magnitude = std::fabs(z);
        for (std::int64_t x = 0; x < D; ++x) {
          const double product =
              problem.scale * problem.q[place_of(i, H, h, D, x)] * problem.k[place_of(j, G, g, D, x)];
          z += product;
          magnitude += std::fabs(product);
        }
        r.score_magnitude = std::max(r.score_magnitude, magnitude);
        const double t = masked.softcap > 0 ? std::tanh(z / masked.softcap) : 0;
        keys.push_back(j);
        p.push_back(masked.softcap > 0 ? masked.softcap * t : z);
        slope.push_back(1 - t * t);
      }
      double& lse = r.lse[place_of(i, H, h, 1, 0)];
      lse = -infinity;
      if (keys.empty()) continue;
      result.row_counts[static_cast<std::size_t>(i)] = true;
      const double highest = *std::max_element(p.begin(), p.end());
      double sum = 0;
      for (const double score : p) sum += std::exp(score - highest);
      lse = highest + std::log(sum);
      double delta = 0;
      std::vector<double> dp(keys.size()), dp_majorant(keys.size());
      for (std::size_t n = 0; n < keys.size(); ++n) {
        p[n] = std::exp(p[n] - lse);
        result.key_counts[static_cast<std::size_t>(keys[n])] = true;
        for (std::int64_t x = 0; x < E; ++x) {
          const double value = problem.v[place_of(keys[n], G, g, E, x)],
                       dout = problem.dout[place_of(i, H, h, E, x)];
          r.out[place_of(i, H, h, E, x)] += p[n] * value;
          r.out_majorant[place_of(i, H, h, E, x)] += p[n] * std::fabs(value);
          r.dv[place_of(keys[n], G, g, E, x)] += p[n] * dout;
          r.dv_majorant[place_of(keys[n], G, g, E, x)] += p[n] * std::fabs(dout);
          dp[n] += dout * value;
          dp_majorant[n] += std::fabs(dout * value);
        }
        delta += p[n] * dp[n];
      }
      r.delta[place_of(i, H, h, 1, 0)] = delta;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        const double dz = p[n] * (dp[n] - delta) * slope[n];
        const double majorant = p[n] * (dp_majorant[n] + std::fabs(delta));
        if (!masked.bias.empty()) {
          const std::size_t of_bias = masked.index(masked.bias_heads, h, i, keys[n]);
          result.dbias[of_bias] += dz;
          result.dbias_majorant[of_bias] += majorant;
          result.bias_counts[of_bias] = true;
        }
        for (std::int64_t x = 0; x < D; ++x) {
          const double key = problem.k[place_of(keys[n], G, g, D, x)],
                       query = problem.q[place_of(i, H, h, D, x)];
          r.dq[place_of(i, H, h, D, x)] += problem.scale * dz * key;
          r.dq_majorant[place_of(i, H, h, D, x)] += std::fabs(problem.scale * key) * majorant;
          r.dk[place_of(keys[n], G, g, D, x)] += problem.scale * dz * query;
          r.dk_majorant[place_of(keys[n], G, g, D, x)] += std::fabs(problem.scale * query) * majorant;
        }
      }
    }
  }
  return result;
}

Problem with_more_roundings(const MaskedProblem& masked) {
  Problem more = masked.problem;
  more.sizes.D += 9;
  more.sizes.E += 10;
  return more;
}

Tolerance dbias_tolerance(const MaskedProblem& masked, const MaskedExpected& expected, DType into,
                          const TileDTypes& dtypes) {
  Problem problem = with_more_roundings(masked);
  // As the gradient of a key that all query heads which share a bias read.
  problem.sizes.G = std::min(problem.sizes.G, masked.bias_heads);
  const TileDTypes of_sums{.nominal = wide(dtypes.nominal), .out = into, .lse = dtypes.lse};
  return gradient_tolerances(problem, expected.attention, of_sums).dk;
}

}  // namespace cplab::testing
