// Softmax attention of a tile, online over key blocks (Milakov and Gimelshein 2018; FlashAttention 2): per
// query row a running maximum, a running sum and an unnormalised output, all in T (fp32, or fp64 for fp64
// operands). A row's segments simply continue its softmax.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/band.hpp"
#include "kernels/cpu/merge_rule.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

constexpr std::int64_t query_block = 64;
constexpr std::int64_t key_block = 128;

template <class T>
using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

template <class T>
class AttendTile {
 public:
  AttendTile(const MergeRule& rule, const Attend& operation)
      : rule_(rule),
        operation_(operation),
        q_(operation.q),
        k_(operation.k),
        v_(operation.v),
        out_(operation.out),
        lse_(operation.lse),
        q_rows_(query_block, operation.q.width),
        k_rows_(key_block, operation.k.width),
        v_rows_(key_block, operation.v.width),
        p_(query_block, key_block),
        sum_out_(query_block, operation.v.width),
        scratch_(1, operation.v.width),
        ranges_(query_block),
        maximum_(query_block),
        sum_(query_block) {}

  void run() {
    const std::int64_t heads = operation_.q.heads;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t kv_head = head / (heads / operation_.k.heads);
      highest_ = minus_infinity<T>;
      for (std::int64_t row = 0; row < operation_.q.rows; row += query_block)
        attend_rows(row, std::min(query_block, operation_.q.rows - row), head, kv_head);
      if (operation_.max_logit) raise_max_logit(head);
    }
  }

 private:
  // All segments of rows first .. first + count of one head, then their results.
  void attend_rows(std::int64_t first, std::int64_t count, std::int64_t head, std::int64_t kv_head) {
    std::fill(maximum_.begin(), maximum_.end(), minus_infinity<T>);
    std::fill(sum_.begin(), sum_.end(), T{0});
    sum_out_.setZero();
    q_.gather(first, count, head, q_rows_.data());
    for (const Segment& segment : operation_.segments) {
      const std::int64_t begin = std::max(first, segment.q_begin);
      const std::int64_t end = std::min(first + count, segment.q_begin + segment.q_count);
      if (begin >= end) continue;
      // Both ends of the visible interval grow with the row: first and last row bound the band.
      const std::int64_t keys_begin = visible_keys(segment, begin - segment.q_begin).begin;
      const std::int64_t keys_end = visible_keys(segment, end - 1 - segment.q_begin).end;
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        attend_block(segment, begin - first, begin - segment.q_begin, end - begin, key,
                     std::min(key_block, keys_end - key), kv_head);
    }
    for (std::int64_t row = 0; row < count; ++row) {
      highest_ = std::max(highest_, maximum_[static_cast<std::size_t>(row)]);
      write_row(row, first + row, head);
    }
  }

  void raise_max_logit(std::int64_t head) const {
    const ViewRows max_logit(*operation_.max_logit);
    if (highest_ > max_logit.load_first<T>(0, head)) max_logit.store_first(0, head, highest_);
  }

  // Rows at `block_row` of the block, `query` of the segment, against keys at `key` of the segment.
  void attend_block(const Segment& segment, std::int64_t block_row, std::int64_t query, std::int64_t queries,
                    std::int64_t key, std::int64_t keys, std::int64_t kv_head) {
    k_.gather(segment.k_begin + key, keys, kv_head, k_rows_.data());
    v_.gather(segment.k_begin + key, keys, kv_head, v_rows_.data());
    auto p = p_.topLeftCorner(queries, keys);
    p.noalias() = q_rows_.middleRows(block_row, queries) * k_rows_.topRows(keys).transpose();
    for (std::int64_t row = 0; row < queries; ++row) {
      const auto at = static_cast<std::size_t>(row);
      ranges_[at] = within(visible_keys(segment, query + row), key, keys);
      softmax_row(ranges_[at], keys, block_row + row, &p_(row, 0));
    }
    const auto values = v_rows_.topRows(keys);
    if (values.allFinite()) {
      sum_out_.middleRows(block_row, queries).noalias() += p * values;
      return;
    }
    // A masked key must not reach the row, not even as zero times NaN.
    for (std::int64_t row = 0; row < queries; ++row) {
      const KeyRange range = ranges_[static_cast<std::size_t>(row)];
      for (std::int64_t j = range.begin; j < range.end; ++j)
        sum_out_.row(block_row + row) += p(row, j) * values.row(j);
    }
  }

  // One step of the online softmax on a row: scores become P = exp(scale s - maximum), rounded as a
  // tensor-core kernel would; the running maximum, sum and output follow. Keys outside `range` get P = 0
  // exactly.
  void softmax_row(KeyRange range, std::int64_t keys, std::int64_t row, T* p) {
    if (range.end <= range.begin) {
      std::fill(p, p + keys, T{0});
      return;
    }
    std::fill(p, p + range.begin, T{0});
    std::fill(p + range.end, p + keys, T{0});
    const auto scale = static_cast<T>(operation_.scale);
    T& maximum = maximum_[static_cast<std::size_t>(row)];
    T& sum = sum_[static_cast<std::size_t>(row)];
    T highest = maximum;
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] *= scale;
      if (p[j] > highest) highest = p[j];
    }
    if (highest != maximum) {  // from -inf too: exp gives 0, the sums are 0
      const T rescale = std::exp(maximum - highest);
      sum *= rescale;
      sum_out_.row(row) *= rescale;
    }
    maximum = highest;
    const T shift = finite_shift(highest);
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] = std::exp(p[j] - shift);
      sum += p[j];
    }
    round_elements(p + range.begin, range.end - range.begin, operation_.v.dtype);
  }

  // What to subtract from scores. If the maximum is -inf, all scores were -inf or NaN: subtracting 0 makes P
  // 0 for the first and keeps NaN for the second.
  static T finite_shift(T maximum) { return maximum == minus_infinity<T> ? T{0} : maximum; }

  void write_row(std::int64_t block_row, std::int64_t row, std::int64_t head) {
    const T sum = sum_[static_cast<std::size_t>(block_row)];
    const bool empty = sum == T{0};
    if (operation_.write == Write::merge && empty) return;
    T lse = minus_infinity<T>;
    if (!empty) {
      lse = finite_shift(maximum_[static_cast<std::size_t>(block_row)]) + std::log(sum);
      sum_out_.row(block_row) /= sum;
    }
    T* row_out = &sum_out_(block_row, 0);
    if (operation_.write == Write::merge) {
      merge_row(rule_, operation_.v.dtype, row_out, lse, out_, lse_, row, head, scratch_.data());
    } else {
      out_.store(row, head, row_out);
      lse_.store_first(row, head, lse);
    }
  }

  const MergeRule& rule_;
  const Attend& operation_;
  ViewRows q_, k_, v_, out_, lse_;
  Matrix<T> q_rows_, k_rows_, v_rows_;  // gathered blocks, widened
  Matrix<T> p_;                         // scores, then P before normalisation
  Matrix<T> sum_out_;                   // P V, per query row of the block
  Matrix<T> scratch_;
  std::vector<KeyRange> ranges_;
  std::vector<T> maximum_, sum_;
  T highest_ = minus_infinity<T>;  // scaled score of the head
};

}  // namespace

void attend_with(const MergeRule& rule, const Attend& operation) {
  check_call(operation);
  const bool wide = operation.q.dtype == DType::fp64 || operation.k.dtype == DType::fp64 ||
                    operation.v.dtype == DType::fp64;
  wide ? AttendTile<double>(rule, operation).run() : AttendTile<float>(rule, operation).run();
}

}  // namespace cplab::kernels
