// Attention with biases, softcaps and dynamic masks in double; see dynamic_mask.hpp for the formulas.
#include "reference/dynamic_mask.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "reference/workers.hpp"

namespace cplab::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstHead = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using Head = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

std::size_t at(std::int64_t i) {
  return static_cast<std::size_t>(i);
}

ConstHead head_of(std::span<const double> tensor, std::int64_t S, std::int64_t heads, std::int64_t head,
                  std::int64_t width) {
  return {tensor.data() + head * width, S, width, Eigen::OuterStride<>(heads * width)};
}

Head head_of(std::vector<double>& tensor, std::int64_t S, std::int64_t heads, std::int64_t head,
             std::int64_t width) {
  return {tensor.data() + head * width, S, width, Eigen::OuterStride<>(heads * width)};
}

void require(bool holds, const char* what) {
  if (!holds) throw std::invalid_argument(what);
}

class Attention {
 public:
  Attention(const DynamicMaskShape& shape, std::span<const double> q, std::span<const double> k,
            std::span<const double> v, std::span<const double> bias, std::span<const double> dout)
      : shape_(shape),
        a_(shape.attention),
        visible_(shape.attention.rule()),
        q_(q),
        k_(k),
        v_(v),
        bias_(bias),
        dout_(dout) {
    const std::int64_t S = a_.S, N = a_.N(), H = a_.H, G = a_.G, D = a_.D, E = a_.E;
    result_.attention.out.assign(at(S * H * E), 0);
    result_.attention.lse.assign(at(H * S), minus_infinity);
    if (dout.empty()) return;
    result_.attention.dq.assign(at(S * H * D), 0);
    result_.attention.dk.assign(at(N * G * D), 0);
    result_.attention.dv.assign(at(N * G * E), 0);
    result_.dbias.assign(bias.size(), 0);
    result_.attention.dsink.assign(shape.sinks.size(), 0);
  }

  // The query heads of a key head, which also share a head of the bias if any do, one after the other.
  DynamicMaskResult run(const std::function<void(std::int64_t)>& after_head) {
    const bool shares = shape_.form == BiasForm::full || shape_.form == BiasForm::keys;
    const std::int64_t units = std::gcd(a_.G, shares ? shape_.bias_heads : a_.G), heads = a_.H / units;
    for_each_unit(
        units,
        [&](std::int64_t unit, int) {
          for (std::int64_t h = unit * heads; h < (unit + 1) * heads; ++h) of_head(h);
        },
        [&](std::int64_t done) {
          if (after_head) after_head(done * heads);
        });
    return std::move(result_);
  }

 private:
  void of_head(std::int64_t h) {
    std::vector<char> kept;  // empty: all
    if (shape_.form == BiasForm::keys) {
      const Eigen::VectorXd row = biases(0, h);
      kept = kept_keys(shape_.selection, {row.data(), at(a_.N())});
    }
    for (std::int64_t i = 0; i < a_.S; ++i) row(i, h, kept);
  }

  Eigen::VectorXd biases(std::int64_t i, std::int64_t h) const {
    Eigen::VectorXd row = Eigen::VectorXd::Zero(a_.N());
    if (shape_.form == BiasForm::none) return row;
    for (std::int64_t j = 0; j < a_.N(); ++j) row(j) = shape_.bias_of(bias_, i, h, j);
    return row;
  }

  void row(std::int64_t i, std::int64_t h, std::vector<char>& kept) {
    const std::int64_t S = a_.S, N = a_.N(), H = a_.H, G = a_.G, D = a_.D, E = a_.E;
    const double scale = a_.scale;
    const std::int64_t g = h / (H / G);
    const ConstHead k = head_of(k_, N, G, g, D), v = head_of(v_, N, G, g, E);
    const auto query = head_of(q_, S, H, h, D).row(i);
    const Eigen::VectorXd bias = biases(i, h);
    if (shape_.form == BiasForm::full) kept = kept_keys(shape_.selection, {bias.data(), at(N)});
    const std::vector<char> live = live_keys(visible_, N, i, kept);
    Eigen::VectorXd x = scale * (k * query.transpose()) + bias;
    Eigen::VectorXd slope = Eigen::VectorXd::Ones(N);  // dx/dz
    if (shape_.softcap > 0) {
      const Eigen::VectorXd t = (x / shape_.softcap).array().tanh();
      x = shape_.softcap * t;
      slope = 1 - t.array().square();
    }
    double highest = minus_infinity;
    for (std::int64_t j = 0; j < N; ++j)
      if (live[at(j)]) highest = std::max(highest, x(j));
    const double sink = shape_.sinks.empty() ? minus_infinity : shape_.sinks[at(h)];
    result_.attention.lse[at(h * S + i)] = sink;
    if (highest == minus_infinity) return;
    highest = std::max(highest, sink);
    Eigen::VectorXd p(N);
    for (std::int64_t j = 0; j < N; ++j) p(j) = live[at(j)] ? std::exp(x(j) - highest) : 0;
    const double sum = p.sum() + std::exp(sink - highest);
    p /= sum;
    result_.attention.lse[at(h * S + i)] = highest + std::log(sum);
    head_of(result_.attention.out, S, H, h, E).row(i) = p.transpose() * v;
    if (dout_.empty()) return;

    const auto dout = head_of(dout_, S, H, h, E).row(i);
    const Eigen::VectorXd dp = v * dout.transpose();
    const Eigen::VectorXd dz = p.array() * (dp.array() - p.dot(dp)) * slope.array();
    head_of(result_.attention.dq, S, H, h, D).row(i) = scale * dz.transpose() * k;
    head_of(result_.attention.dk, N, G, g, D).noalias() += scale * dz * query;
    head_of(result_.attention.dv, N, G, g, E).noalias() += p * dout;
    if (!shape_.sinks.empty()) result_.attention.dsink[at(h)] -= std::exp(sink - highest) / sum * p.dot(dp);
    if (!shape_.has_numbers()) return;
    for (std::int64_t j = 0; j < N; ++j)
      if (live[at(j)]) result_.dbias[shape_.index_of(i, h, j)] += dz(j);
  }

  const DynamicMaskShape& shape_;
  const AttentionShape& a_;
  const VisibleKeys visible_;
  std::span<const double> q_, k_, v_, bias_, dout_;
  DynamicMaskResult result_;
};

// T5's, with logarithms in double. What comes out a hair below a whole number is that number: distances at
// which a bucket begins are whole powers of a ratio.
std::int64_t bucket_of(const DynamicMaskShape& shape, std::int64_t distance) {
  const std::int64_t count = shape.both_ways ? shape.columns / 2 : shape.columns, exact = count / 2;
  const std::int64_t other_half = shape.both_ways && distance > 0 ? count : 0;
  const std::int64_t far = shape.both_ways ? std::abs(distance) : std::max<std::int64_t>(-distance, 0);
  if (far < exact) return other_half + far;
  const double of_exact = static_cast<double>(exact);
  const double share = std::log(static_cast<double>(far) / of_exact) /
                       std::log(static_cast<double>(shape.max_distance) / of_exact);
  const auto more = static_cast<std::int64_t>(share * static_cast<double>(count - exact) + 1e-9);
  return other_half + std::min(exact + more, count - 1);
}

}  // namespace

std::size_t DynamicMaskShape::index_of(std::int64_t i, std::int64_t h, std::int64_t j) const {
  if (form == BiasForm::buckets) return at(h * columns + bucket_of(*this, j - i - attention.first_at));
  const std::int64_t line = (form == BiasForm::full ? i : j) * bias_heads + h / (attention.H / bias_heads);
  return form == BiasForm::full ? at(line * columns + j) : at(line);
}

double DynamicMaskShape::bias_of(std::span<const double> bias, std::int64_t i, std::int64_t h,
                                 std::int64_t j) const {
  if (form == BiasForm::none) return 0;
  if (form == BiasForm::alibi)
    return -slopes[at(h)] * static_cast<double>(std::abs(j - i - attention.first_at));
  return bias[index_of(i, h, j)];
}

std::vector<char> kept_keys(const Selection& selection, std::span<const double> biases) {
  const std::int64_t S = std::ssize(biases);
  std::vector<char> kept(biases.size(), 1);
  const bool all =
      selection.rule == KeepRule::none || (selection.rule == KeepRule::top_k && selection.top_k >= S);
  if (all) return kept;
  const auto value = [&](std::int64_t j) { return biases[at(j)]; };
  if (selection.rule == KeepRule::relu) {
    for (std::int64_t j = 0; j < S; ++j) kept[at(j)] = value(j) > 0;
  } else {
    std::vector<std::int64_t> order(biases.size());
    std::iota(order.begin(), order.end(), std::int64_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return value(a) > value(b); });
    std::fill(kept.begin(), kept.end(), char{0});
    for (std::int64_t n = 0; n < selection.top_k; ++n) {
      const std::int64_t j = order[at(n)];
      kept[at(j)] = value(j) > minus_infinity;
    }
  }
  if (selection.block <= 1) return kept;
  for (std::int64_t first = 0; first < S; first += selection.block) {
    const std::int64_t end = std::min(S, first + selection.block);
    const auto begin = kept.begin() + first, stop = kept.begin() + end;
    const std::int64_t selected = std::count(begin, stop, char{1});
    std::fill(begin, stop, static_cast<char>(2 * selected > end - first));
  }
  return kept;
}

std::vector<char> live_keys(const VisibleKeys& visible, std::int64_t keys, std::int64_t i,
                            std::span<const char> kept) {
  std::vector<char> live(at(keys), 0);
  visible.for_each(i, {0, keys}, [&](KeyRun run) {
    for (std::int64_t j = run.begin; j < run.end; ++j) live[at(j)] = kept.empty() || kept[at(j)];
  });
  return live;
}

DynamicMaskResult dynamic_mask_attention(const DynamicMaskShape& shape, std::span<const double> q,
                                         std::span<const double> k, std::span<const double> v,
                                         std::span<const double> bias, std::span<const double> dout,
                                         const std::function<void(std::int64_t)>& after_head) {
  const std::int64_t S = shape.attention.S, N = shape.attention.N(), H = shape.attention.H,
                     G = shape.attention.G, D = shape.attention.D, E = shape.attention.E;
  require(S >= 0 && N >= 0 && H >= 1 && G >= 1 && D >= 1 && E >= 1 && H % G == 0,
          "dynamic_mask_attention: sizes must be positive and H a multiple of G");
  require(std::ssize(q) == S * H * D, "dynamic_mask_attention: q is not [S,H,D]");
  require(std::ssize(k) == N * G * D, "dynamic_mask_attention: k is not [N,G,D]");
  require(std::ssize(v) == N * G * E, "dynamic_mask_attention: v is not [N,G,E]");
  require(dout.empty() || std::ssize(dout) == S * H * E, "dynamic_mask_attention: dout is not [S,H,E]");
  std::int64_t biases = shape.form == BiasForm::buckets ? H * shape.columns : 0;
  require(shape.sinks.empty() || std::ssize(shape.sinks) == H,
          "dynamic_mask_attention: there is not one sink for each query head");
  require(shape.form != BiasForm::alibi || std::ssize(shape.slopes) == H,
          "dynamic_mask_attention: there is not one slope for each query head");
  if (shape.form == BiasForm::full || shape.form == BiasForm::keys) {
    require(shape.bias_heads >= 1 && H % shape.bias_heads == 0,
            "dynamic_mask_attention: bias heads must divide the query heads");
    require(shape.form == BiasForm::keys || shape.columns >= N,
            "dynamic_mask_attention: a row of biases is shorter than the keys");
    biases = shape.bias_heads * (shape.form == BiasForm::full ? S * shape.columns : N);
  }
  require(std::ssize(bias) == biases, "dynamic_mask_attention: bias is not of its shape");
  require(shape.form != BiasForm::none || shape.selection.rule == KeepRule::none,
          "dynamic_mask_attention: a selection needs biases");
  return Attention(shape, q, k, v, bias, dout).run(after_head);
}

}  // namespace cplab::reference
