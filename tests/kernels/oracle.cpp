// Brute-force attention over a visibility matrix, and error bounds; see oracle.hpp.
#include "tests/kernels/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace cplab::testing {
namespace {

double largest(const std::vector<double>& values) {
  double magnitude = 0;
  for (const double value : values)
    if (std::isfinite(value)) magnitude = std::max(magnitude, std::fabs(value));
  return magnitude;
}

// u, r and the absolute loss of a rounding to fp16 below its normal range.
struct Roundoff {
  double u, r, underflow;
};

Roundoff roundoff_of(DType nominal) {
  const double u = nominal == DType::fp64 ? 0x1p-53 : 0x1p-24;
  const double r = unit_roundoff(nominal) > u ? unit_roundoff(nominal) : 0;
  const double fp32_underflow = nominal == DType::fp64 ? 0 : 0x1p-117;
  return {.u = u, .r = r, .underflow = nominal == DType::fp16 ? 0x1p-25 : fp32_underflow};
}

double output_floor(DType dtype) {
  return dtype == DType::fp16 ? 0x1p-25 : 0;
}

double blocks_of(const Problem& problem) {
  return static_cast<double>(problem.sizes.nk) / 32 + 2 * static_cast<double>(problem.segments.size()) + 2;
}

double lse_bound(const Problem& problem, const Expected& expected) {
  return expected.score_magnitude +
         std::log(static_cast<double>(std::max<std::int64_t>(1, problem.sizes.nk + !problem.sinks.empty())));
}

// Relative error of a weight of the online softmax, w above, plus that of a sum of n of them.
double weight_error(const Problem& problem, const Expected& expected, double u) {
  const double A = expected.score_magnitude;
  const double b = blocks_of(problem);
  const double w = (static_cast<double>(problem.sizes.D) + 4) * A + 2 + b * (2 * A + 3);
  return u * (w + static_cast<double>(problem.sizes.nk) + b + 2);
}

}  // namespace

std::vector<int> visible_pairs(const Problem& problem) {
  std::vector<int> visible(static_cast<std::size_t>(problem.sizes.nq * problem.sizes.nk));
  for (const Segment& segment : problem.segments) {
    for (std::int64_t i = 0; i < segment.q_count; ++i) {
      for (std::int64_t j = 0; j < segment.k_count; ++j) {
        const std::int64_t d = j - (i + segment.offset);
        const bool sees =
            (segment.left < 0 || d >= -segment.left) && (segment.right < 0 || d <= segment.right);
        if (sees)
          ++visible[static_cast<std::size_t>((segment.q_begin + i) * problem.sizes.nk + segment.k_begin + j)];
      }
    }
  }
  return visible;
}

namespace {

// The inner product of two rows, and that of their magnitudes. Several sums, because each addition of one
// would wait for the one before.
struct Dot {
  double sum = 0, magnitude = 0;
};
Dot dot(const double* a, const double* b, std::int64_t width) {
  constexpr std::int64_t lanes = 8;
  Dot result;
  double sums[lanes] = {}, magnitudes[lanes] = {};
  std::int64_t x = 0;
  for (; x + lanes <= width; x += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      const double product = a[x + lane] * b[x + lane];
      sums[lane] += product;
      magnitudes[lane] += std::fabs(product);
    }
  for (; x < width; ++x) {
    result.sum += a[x] * b[x];
    result.magnitude += std::fabs(a[x] * b[x]);
  }
  for (std::int64_t lane = 0; lane < lanes; ++lane) {
    result.sum += sums[lane];
    result.magnitude += magnitudes[lane];
  }
  return result;
}

// Adds factor times a row to a sum, and the same of magnitudes to its majorant.
void add_row(double factor, const double* row, std::int64_t width, double* __restrict sum, double magnitude,
             double* __restrict majorant) {
  for (std::int64_t x = 0; x < width; ++x) {
    sum[x] += factor * row[x];
    majorant[x] += magnitude * std::fabs(row[x]);
  }
}

}  // namespace

Expected expected_of(const Problem& problem, const std::vector<double>& given_delta) {
  const auto& [nq, nk, H, G, D, E] = problem.sizes;
  const std::vector<int> visible = visible_pairs(problem);
  Expected result;
  const auto sized = [](std::int64_t rows, std::int64_t heads, std::int64_t width) {
    return std::vector<double>(static_cast<std::size_t>(rows * heads * width));
  };
  result.out = result.out_majorant = sized(nq, H, E);
  result.lse = result.delta = sized(nq, H, 1);
  result.max_logit.assign(static_cast<std::size_t>(H), -infinity);
  result.dq = result.dq_majorant = sized(nq, H, D);
  result.dk = result.dk_majorant = sized(nk, G, D);
  result.dv = result.dv_majorant = sized(nk, G, E);
  for (const double sink : problem.sinks)
    result.score_magnitude = std::max(result.score_magnitude, std::fabs(sink));
  std::vector<std::int64_t> keys;
  std::vector<double> p, dp, dp_majorant;
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h / (H / G);
    for (std::int64_t i = 0; i < nq; ++i) {
      keys.clear();
      p.clear();
      for (std::int64_t j = 0; j < nk; ++j) {
        if (visible[static_cast<std::size_t>(i * nk + j)] == 0) continue;
        const Dot product = dot(&problem.q[place_of(i, H, h, D, 0)], &problem.k[place_of(j, G, g, D, 0)], D);
        const double score = problem.scale * product.sum;
        result.score_magnitude =
            std::max(result.score_magnitude, std::fabs(problem.scale) * product.magnitude);
        keys.push_back(j);
        p.push_back(score);
        double& most = result.max_logit[static_cast<std::size_t>(h)];
        most = std::max(most, score);
      }
      double& lse = result.lse[place_of(i, H, h, 1, 0)];
      const double sink = problem.sinks.empty() ? -infinity : problem.sinks[static_cast<std::size_t>(h)];
      lse = sink;
      if (keys.empty()) continue;
      const double highest = std::max(*std::max_element(p.begin(), p.end()), sink);
      double sum = std::exp(sink - highest);
      for (const double score : p) sum += std::exp(score - highest);
      lse = highest + std::log(sum);

      double delta = 0;
      dp.assign(keys.size(), 0);
      dp_majorant.assign(keys.size(), 0);
      for (std::size_t n = 0; n < keys.size(); ++n) {
        p[n] = std::exp(p[n] - lse);
        const double* const value = &problem.v[place_of(keys[n], G, g, E, 0)];
        const double* const dout = &problem.dout[place_of(i, H, h, E, 0)];
        add_row(p[n], value, E, &result.out[place_of(i, H, h, E, 0)], p[n],
                &result.out_majorant[place_of(i, H, h, E, 0)]);
        add_row(p[n], dout, E, &result.dv[place_of(keys[n], G, g, E, 0)], p[n],
                &result.dv_majorant[place_of(keys[n], G, g, E, 0)]);
        const Dot product = dot(dout, value, E);
        dp[n] = product.sum;
        dp_majorant[n] = product.magnitude;
        delta += p[n] * dp[n];
      }
      if (!given_delta.empty()) delta = given_delta[place_of(i, H, h, 1, 0)];
      result.delta[place_of(i, H, h, 1, 0)] = delta;
      for (std::size_t n = 0; n < keys.size(); ++n) {
        const double ds = problem.scale * p[n] * (dp[n] - delta);
        const double ds_majorant = std::fabs(problem.scale) * p[n] * (dp_majorant[n] + std::fabs(delta));
        add_row(ds, &problem.k[place_of(keys[n], G, g, D, 0)], D, &result.dq[place_of(i, H, h, D, 0)],
                ds_majorant, &result.dq_majorant[place_of(i, H, h, D, 0)]);
        add_row(ds, &problem.q[place_of(i, H, h, D, 0)], D, &result.dk[place_of(keys[n], G, g, D, 0)],
                ds_majorant, &result.dk_majorant[place_of(keys[n], G, g, D, 0)]);
      }
    }
  }
  return result;
}

Tolerance out_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes) {
  const auto [u, r, underflow] = roundoff_of(dtypes.nominal);
  const auto merges = static_cast<double>(dtypes.merges);
  const double L = lse_bound(problem, expected);
  // A merge's weights exp(x - lse) carry the error of lse and of the subtraction, 2 L u, and of exp.
  const double merging = merges * 2 * u * (2 + 2 * L + 2 * L + 4) + (merges > 0 ? dtypes.part_roundoff : 0);
  const double first_order = r + 2 * weight_error(problem, expected, u) + merging;
  return {.majorant = first_order * (1 + 4 * r + 0.01),
          .relative = unit_roundoff(dtypes.out),
          .floor = static_cast<double>(problem.sizes.nk) * underflow * largest(problem.v) +
                   output_floor(dtypes.out)};
}

Tolerance lse_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes) {
  const double u = roundoff_of(dtypes.nominal).u;
  const double L = lse_bound(problem, expected);
  return {.majorant = 1.01 * (weight_error(problem, expected, u) +
                              (1 + static_cast<double>(dtypes.merges)) * 2 * u * (1 + L)),
          .relative = unit_roundoff(dtypes.lse),
          .floor = 0};
}

Tolerance max_logit_tolerance(const Problem& problem, const Expected& expected, const TileDTypes& dtypes) {
  const double u = roundoff_of(dtypes.nominal).u;
  return {.majorant = 1.01 * u * (static_cast<double>(problem.sizes.D) + 3) * expected.score_magnitude,
          .relative = 0,
          .floor = 0};
}

GradientTolerances gradient_tolerances(const Problem& problem, const Expected& expected,
                                       const TileDTypes& dtypes) {
  const auto [u, r, underflow] = roundoff_of(dtypes.nominal);
  const double l = unit_roundoff(dtypes.lse);
  const double L = lse_bound(problem, expected);
  const auto keys = static_cast<double>(problem.sizes.nk);
  const auto rows = static_cast<double>(problem.sizes.nq * (problem.sizes.H / problem.sizes.G));
  const double e =
      u * ((static_cast<double>(problem.sizes.D) + 3) * expected.score_magnitude + L + 2) + l * L;
  const auto E = static_cast<double>(problem.sizes.E);
  const double ds = e + r + l + (E + 4) * u + (dtypes.computes_delta ? (E + 2) * u : 0);
  const double second_order = 1 + 4 * r + 0.01;
  const double relative = unit_roundoff(dtypes.out);
  const double scaled = std::fabs(problem.scale) * underflow;
  return {.dq = {.majorant = second_order * (ds + (keys + 2) * u),
                 .relative = relative,
                 .floor = keys * scaled * largest(problem.k) + output_floor(dtypes.out)},
          .dk = {.majorant = second_order * (ds + (rows + 2) * u),
                 .relative = relative,
                 .floor = rows * scaled * largest(problem.q) + output_floor(dtypes.out)},
          .dv = {.majorant = second_order * (e + r + (rows + 2) * u),
                 .relative = relative,
                 .floor = rows * underflow * largest(problem.dout) + output_floor(dtypes.out)}};
}

double worst_share(const std::vector<double>& computed, const std::vector<double>& exact,
                   const std::vector<double>& majorant, const Tolerance& tolerance) {
  if (computed.size() != exact.size() || majorant.size() != exact.size()) return infinity;
  double worst = 0;
  for (std::size_t x = 0; x < exact.size(); ++x) {
    if (computed[x] == exact[x]) continue;  // infinities of one sign included
    const double allowed =
        tolerance.majorant * majorant[x] + tolerance.relative * std::fabs(exact[x]) + tolerance.floor;
    const double share = std::fabs(computed[x] - exact[x]) / allowed;
    if (!(share < infinity)) return infinity;  // NaN, or something where exactly 0 is due
    worst = std::max(worst, share);
  }
  return worst;
}

}  // namespace cplab::testing
