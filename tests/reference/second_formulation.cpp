// Streaming, scalar attention with Jacobian gradients; see second_formulation.hpp.
#include "tests/reference/second_formulation.hpp"

#include <cmath>
#include <cstddef>

namespace cplab::reference::second {
namespace {

// Element (row, head, x) of a [rows, heads, width] tensor.
struct Index {
  std::int64_t heads, width;
  std::size_t operator()(std::int64_t row, std::int64_t head, std::int64_t x) const {
    return static_cast<std::size_t>((row * heads + head) * width + x);
  }
};

bool sees(const Attention& problem, std::int64_t i, std::int64_t j) {
  const bool far_back = problem.left >= 0 && i - j > problem.left;
  const bool far_ahead = problem.right >= 0 && j - i > problem.right;
  return !far_back && !far_ahead;
}

}  // namespace

Result attention(const Attention& problem) {
  const auto& [S, H, G, D, E, scale, left, right, q, k, v, dout] = problem;
  const Index at_q{H, D};
  const Index at_k{G, D};
  const Index at_v{G, E};
  const Index at_out{H, E};
  Result result;
  result.out.assign(dout.size(), 0);
  result.lse.assign(static_cast<std::size_t>(S * H), 0);
  result.max_logit.assign(static_cast<std::size_t>(H), -HUGE_VAL);
  result.dq.assign(q.size(), 0);
  result.dk.assign(k.size(), 0);
  result.dv.assign(v.size(), 0);

  std::vector<std::int64_t> keys;  // those the query sees
  std::vector<double> s, p, dp;    // by position in keys
  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h * G / H;
    for (std::int64_t i = 0; i < S; ++i) {
      // Forward: `mean` is the softmax average of v over the keys so far, `lse` their log-sum-exp. A new
      // key enters the average with weight w = exp(s - lse_new) = 1 / (1 + exp(lse_old - s)).
      keys.clear();
      s.clear();
      double lse = 0;
      for (std::int64_t j = 0; j < S; ++j) {
        if (!sees(problem, i, j)) continue;
        double score = 0;
        for (std::int64_t x = 0; x < D; ++x) score += q[at_q(i, h, x)] * k[at_k(j, g, x)];
        score *= scale;
        double& most = result.max_logit[static_cast<std::size_t>(h)];
        if (score > most) most = score;
        double weight = 1;
        if (keys.empty()) {
          lse = score;
        } else if (score > lse) {
          weight = 1 / (1 + std::exp(lse - score));
          lse = score + std::log1p(std::exp(lse - score));
        } else {
          weight = std::exp(score - lse) / (1 + std::exp(score - lse));
          lse = lse + std::log1p(std::exp(score - lse));
        }
        for (std::int64_t x = 0; x < E; ++x) {
          double& mean = result.out[at_out(i, h, x)];
          mean += weight * (v[at_v(j, g, x)] - mean);
        }
        keys.push_back(j);
        s.push_back(score);
      }
      result.lse[static_cast<std::size_t>(h * S + i)] = lse;

      // Backward: out = sum_j p_j v_j, p = softmax(s).
      const std::size_t n = keys.size();
      p.assign(n, 0);
      dp.assign(n, 0);
      for (std::size_t a = 0; a < n; ++a) {
        p[a] = std::exp(s[a] - lse);
        for (std::int64_t x = 0; x < E; ++x) {
          dp[a] += dout[at_out(i, h, x)] * v[at_v(keys[a], g, x)];
          result.dv[at_v(keys[a], g, x)] += p[a] * dout[at_out(i, h, x)];
        }
      }
      for (std::size_t b = 0; b < n; ++b) {
        double ds = 0;
        for (std::size_t a = 0; a < n; ++a) ds += dp[a] * p[a] * ((a == b ? 1.0 : 0.0) - p[b]);
        for (std::int64_t x = 0; x < D; ++x) {
          result.dq[at_q(i, h, x)] += ds * scale * k[at_k(keys[b], g, x)];
          result.dk[at_k(keys[b], g, x)] += ds * scale * q[at_q(i, h, x)];
        }
      }
    }
  }
  return result;
}

}  // namespace cplab::reference::second
