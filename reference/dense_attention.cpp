// Dense softmax attention in double; see dense_attention.hpp for the formulas.
#include "reference/dense_attention.hpp"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <stdexcept>

namespace cplab::reference {
namespace {

using Matrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
// One head of a [S, heads, width] tensor: S rows, heads * width apart.
using ConstHead = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
using Head = Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;

// Query rows handled together; with S keys a block of scores is 64 S doubles (4 MiB at S = 8192).
constexpr std::int64_t block_rows = 64;

ConstHead head_of(std::span<const double> tensor, std::int64_t S, std::int64_t heads, std::int64_t head,
                  std::int64_t width) {
  return {tensor.data() + head * width, S, width, Eigen::OuterStride<>(heads * width)};
}

Head head_of(std::vector<double>& tensor, std::int64_t S, std::int64_t heads, std::int64_t head,
             std::int64_t width) {
  return {tensor.data() + head * width, S, width, Eigen::OuterStride<>(heads * width)};
}

std::int64_t first_key(const AttentionShape& shape, std::int64_t i) {
  return shape.left < 0 ? 0 : std::max<std::int64_t>(0, i - shape.left);
}

std::int64_t last_key(const AttentionShape& shape, std::int64_t i) {
  return shape.right < 0 ? shape.S - 1 : std::min(shape.S - 1, i + shape.right);
}

// Softmax of each row of `scores` (rows from `row` on, columns from key `key` on) over the visible keys, in
// place; invisible pairs become 0. Returns the log-sum-exp of each row and raises max_logit to the largest
// visible score.
Eigen::VectorXd softmax_rows(const AttentionShape& shape, std::int64_t row, std::int64_t key, Matrix& scores,
                             double& max_logit) {
  Eigen::VectorXd lse(scores.rows());
  for (std::int64_t i = 0; i < scores.rows(); ++i) {
    const std::int64_t begin = first_key(shape, row + i) - key;
    const std::int64_t end = last_key(shape, row + i) + 1 - key;
    double highest = -std::numeric_limits<double>::infinity();
    for (std::int64_t j = begin; j < end; ++j) highest = std::max(highest, scores(i, j));
    max_logit = std::max(max_logit, highest);
    double sum = 0;
    for (std::int64_t j = 0; j < scores.cols(); ++j) {
      const bool visible = begin <= j && j < end;
      scores(i, j) = visible ? std::exp(scores(i, j) - highest) : 0;
      sum += scores(i, j);
    }
    scores.row(i) /= sum;
    lse(i) = highest + std::log(sum);
  }
  return lse;
}

void require_size(std::span<const double> tensor, std::int64_t rows, std::int64_t heads, std::int64_t width,
                  const char* what) {
  if (std::ssize(tensor) != rows * heads * width) throw std::invalid_argument(what);
}

}  // namespace

AttentionResult dense_attention(const AttentionShape& shape, std::span<const double> q,
                                std::span<const double> k, std::span<const double> v,
                                std::span<const double> dout,
                                const std::function<void(std::int64_t)>& after_head) {
  const auto [S, H, G, D, E, scale, left, right] = shape;
  if (S < 0 || H < 1 || G < 1 || D < 1 || E < 1 || H % G != 0)
    throw std::invalid_argument("dense_attention: sizes must be positive and H a multiple of G");
  require_size(q, S, H, D, "dense_attention: q is not [S,H,D]");
  require_size(k, S, G, D, "dense_attention: k is not [S,G,D]");
  require_size(v, S, G, E, "dense_attention: v is not [S,G,E]");
  const bool backward = !dout.empty();
  if (backward) require_size(dout, S, H, E, "dense_attention: dout is not [S,H,E]");

  AttentionResult result;
  result.out.resize(static_cast<std::size_t>(S * H * E));
  result.lse.resize(static_cast<std::size_t>(H * S));
  result.max_logit.assign(static_cast<std::size_t>(H), -std::numeric_limits<double>::infinity());
  if (backward) {
    result.dq.resize(static_cast<std::size_t>(S * H * D));
    result.dk.resize(static_cast<std::size_t>(S * G * D));
    result.dv.resize(static_cast<std::size_t>(S * G * E));
  }

  for (std::int64_t h = 0; h < H; ++h) {
    const std::int64_t g = h / (H / G);
    const ConstHead q_head = head_of(q, S, H, h, D);
    const ConstHead k_head = head_of(k, S, G, g, D);
    const ConstHead v_head = head_of(v, S, G, g, E);
    Head out_head = head_of(result.out, S, H, h, E);
    for (std::int64_t row = 0; row < S; row += block_rows) {
      const std::int64_t rows = std::min(block_rows, S - row);
      const std::int64_t key = first_key(shape, row);
      const std::int64_t keys = last_key(shape, row + rows - 1) + 1 - key;
      const auto q_block = q_head.middleRows(row, rows);
      const auto k_block = k_head.middleRows(key, keys);
      const auto v_block = v_head.middleRows(key, keys);
      Matrix p = scale * (q_block * k_block.transpose());
      const Eigen::VectorXd lse =
          softmax_rows(shape, row, key, p, result.max_logit[static_cast<std::size_t>(h)]);
      out_head.middleRows(row, rows).noalias() = p * v_block;
      std::copy(lse.begin(), lse.end(), result.lse.begin() + h * S + row);
      if (!backward) continue;

      const ConstHead dout_head = head_of(dout, S, H, h, E);
      const auto dout_block = dout_head.middleRows(row, rows);
      Matrix ds = dout_block * v_block.transpose();
      const Eigen::VectorXd mean = p.cwiseProduct(ds).rowwise().sum();
      ds.colwise() -= mean;
      ds.array() *= scale * p.array();
      head_of(result.dq, S, H, h, D).middleRows(row, rows).noalias() = ds * k_block;
      head_of(result.dk, S, G, g, D).middleRows(key, keys).noalias() += ds.transpose() * q_block;
      head_of(result.dv, S, G, g, E).middleRows(key, keys).noalias() += p.transpose() * dout_block;
    }
    if (after_head) after_head(h + 1);
  }
  return result;
}

}  // namespace cplab::reference
