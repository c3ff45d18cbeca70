// The online softmax of a block of query rows (Milakov and Gimelshein 2018; FlashAttention 2): per row a
// running maximum, a running sum and an unnormalised output, all in T (fp32, or fp64 for fp64 operands),
// which every block of keys only continues. Of softmax and of dynamic mask attention.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "kernels/cpu/band.hpp"
#include "kernels/cpu/merge_rule.hpp"
#include "kernels/cpu/row_matrix.hpp"
#include "kernels/cpu/tile_blocks.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

template <class T>
class OnlineRows {
 public:
  OnlineRows(const MergeRule& rule, const Attend& call)
      : rule_(rule),
        call_(call),
        q_(call.q),
        k_(call.k),
        v_(call.v),
        out_(call.out),
        lse_(call.lse),
        sink_(call.sink ? std::optional<ViewRows>(*call.sink) : std::nullopt),
        q_rows_(query_block, call.q.width),
        k_rows_(key_block, call.k.width),
        v_rows_(key_block, call.v.width),
        p_(query_block, key_block),
        sum_out_(query_block, call.v.width),
        scratch_(1, call.v.width),
        maximum_(query_block),
        sum_(query_block) {}

  static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

  // Rows first .. first + count of one head against all their keys: visit(segment, row, rows, key, keys) for
  // every block, with the first of its rows, and of its keys as the segment counts them.
  template <class Visit>
  void attend(std::int64_t first, std::int64_t count, std::int64_t head, Visit visit) {
    std::fill(maximum_.begin(), maximum_.end(), minus_infinity);
    std::fill(sum_.begin(), sum_.end(), T{0});
    sum_out_.set_zero();
    q_.gather(first, count, head, q_rows_.data());
    for (const Segment& segment : call_.segments) {
      const std::int64_t begin = std::max(first, segment.q_begin);
      const std::int64_t end = std::min(first + count, segment.q_begin + segment.q_count);
      if (begin >= end) continue;
      // Both ends of the visible interval grow with the row: first and last row bound the band.
      const std::int64_t keys_begin = visible_keys(segment, begin - segment.q_begin).begin;
      const std::int64_t keys_end = visible_keys(segment, end - 1 - segment.q_begin).end;
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        visit(segment, begin, end - begin, key, std::min(key_block, keys_end - key));
    }
    for (std::int64_t row = 0; row < count; ++row) write_row(row, first + row, head);
  }

  // q.k of `rows` rows from `row` of the block on, and keys from row `first_key` of k on: returned by row.
  T* multiply(std::int64_t row, std::int64_t rows, std::int64_t first_key, std::int64_t keys,
              std::int64_t kv_head) {
    k_.gather(first_key, keys, kv_head, k_rows_.data());
    v_.gather(first_key, keys, kv_head, v_rows_.data());
    store_product_with_transposed<T>(q_rows_.rows_from(row, rows), k_rows_.rows_from(0, keys),
                                     p_.block(0, rows, keys));
    return p_.data();
  }
  static constexpr std::int64_t row_stride = key_block;  // of what multiply() returns

  // Lets a row's maximum rise, and rescales what was summed: what to subtract from its scores. If the maximum
  // is -inf, all scores were -inf or NaN: subtracting 0 makes P 0 for the first and keeps NaN for the second.
  T raise(std::int64_t row, T highest) {
    T& maximum = maximum_[static_cast<std::size_t>(row)];
    if (highest != maximum) {  // from -inf too: exp gives 0, the sums are 0
      const T rescale = std::exp(maximum - highest);
      sum_[static_cast<std::size_t>(row)] *= rescale;
      T* const out = sum_out_.row(row);
      for (std::int64_t x = 0; x < sum_out_.cols(); ++x) out[x] *= rescale;
    }
    maximum = highest;
    return finite_shift(highest);
  }
  T maximum(std::int64_t row) const { return maximum_[static_cast<std::size_t>(row)]; }
  T& sum(std::int64_t row) { return sum_[static_cast<std::size_t>(row)]; }

  // Adds P V of the block that multiply() was called for; counts(i, j) says whether its pair is live. Another
  // must not reach the row, not even as zero times NaN.
  template <class Counts>
  void add_values(std::int64_t row, std::int64_t rows, std::int64_t keys, Counts counts) {
    const Block<const T> p = p_.block(0, rows, keys), values = v_rows_.rows_from(0, keys);
    if (all_finite(values)) {
      add_product(p, values, sum_out_.rows_from(row, rows));
      return;
    }
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < keys; ++j)
        if (counts(i, j)) add_scaled(sum_out_.row(row + i), p.row(i)[j], values.row(j), values.cols);
  }

 private:
  // Like a block whose only score is the sink, and whose value is 0; also where a row sees no key, unless the
  // result is merged into one that has its sink.
  void count_sink(std::int64_t row, std::int64_t head) {
    if (!sink_ || (call_.write == Write::merge && sum(row) == T{0})) return;
    const T logit = sink_->load_first<T>(0, head);
    sum(row) += std::exp(logit - raise(row, std::max(maximum(row), logit)));
  }

  static T finite_shift(T maximum) { return maximum == minus_infinity ? T{0} : maximum; }

  void write_row(std::int64_t block_row, std::int64_t row, std::int64_t head) {
    count_sink(block_row, head);
    const T sum = sum_[static_cast<std::size_t>(block_row)];
    const bool empty = sum == T{0};
    if (call_.write == Write::merge && empty) return;
    T lse = minus_infinity;
    T* const row_out = sum_out_.row(block_row);
    if (!empty) {
      lse = finite_shift(maximum(block_row)) + std::log(sum);
      for (std::int64_t x = 0; x < sum_out_.cols(); ++x) row_out[x] /= sum;
    }
    if (call_.write == Write::merge) {
      merge_row(rule_, call_.v.dtype, row_out, lse, out_, lse_, row, head, scratch_.data());
    } else {
      out_.store(row, head, row_out);
      lse_.store_first(row, head, lse);
    }
  }

  const MergeRule& rule_;
  const Attend& call_;
  ViewRows q_, k_, v_, out_, lse_;
  std::optional<ViewRows> sink_;
  RowMatrix<T> q_rows_, k_rows_, v_rows_;  // gathered blocks, widened
  RowMatrix<T> p_;                         // scores, then P before normalisation
  RowMatrix<T> sum_out_;                   // P V, per query row of the block
  RowMatrix<T> scratch_;
  std::vector<T> maximum_, sum_;
};

}  // namespace cplab::kernels
