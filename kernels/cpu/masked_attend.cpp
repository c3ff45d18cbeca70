// A tile of dynamic mask attention, online over key blocks as attend.cpp: per query row a running maximum, a
// running sum and an unnormalised output, all in T.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/masked_pairs.hpp"
#include "kernels/cpu/merge_rule.hpp"

namespace cplab::kernels {
namespace {

constexpr std::int64_t query_block = 64;
constexpr std::int64_t key_block = 128;

template <class T>
using TileMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
class MaskedTile {
 public:
  MaskedTile(const MaskedAttend& call, bool skips)
      : tile_(call.tile),
        skips_(skips),
        pairs_(call.mask, call.tile.q.heads),
        q_(tile_.q),
        k_(tile_.k),
        v_(tile_.v),
        out_(tile_.out),
        lse_(tile_.lse),
        q_rows_(query_block, tile_.q.width),
        k_rows_(key_block, tile_.k.width),
        v_rows_(key_block, tile_.v.width),
        p_(query_block, key_block),
        sum_out_(query_block, tile_.v.width),
        scratch_(1, tile_.v.width),
        live_(query_block * key_block),
        maximum_(query_block),
        sum_(query_block) {}

  void run() {
    for (std::int64_t head = 0; head < tile_.q.heads; ++head)
      for (std::int64_t row = 0; row < tile_.q.rows; row += query_block)
        attend_rows(row, std::min(query_block, tile_.q.rows - row), head);
  }

 private:
  static constexpr T minus_infinity = -std::numeric_limits<T>::infinity();

  void attend_rows(std::int64_t first, std::int64_t count, std::int64_t head) {
    std::fill(maximum_.begin(), maximum_.end(), minus_infinity);
    std::fill(sum_.begin(), sum_.end(), T{0});
    sum_out_.setZero();
    q_.gather(first, count, head, q_rows_.data());
    for (const Segment& segment : tile_.segments) {
      const std::int64_t begin = std::max(first, segment.q_begin);
      const std::int64_t end = std::min(first + count, segment.q_begin + segment.q_count);
      if (begin >= end) continue;
      const std::int64_t keys_begin = visible_keys(segment, begin - segment.q_begin).begin;
      const std::int64_t keys_end = visible_keys(segment, end - 1 - segment.q_begin).end;
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        attend_block(segment, first, begin, end - begin, key, std::min(key_block, keys_end - key), head);
    }
    for (std::int64_t row = 0; row < count; ++row) write_row(row, first + row, head);
  }

  // Rows query .. + queries of q against keys at `key` of the segment; `first` is the row that sums begin at.
  void attend_block(const Segment& segment, std::int64_t first, std::int64_t query, std::int64_t queries,
                    std::int64_t key, std::int64_t keys, std::int64_t head) {
    const std::int64_t first_key = segment.k_begin + key;
    bool any = false;
    for (std::int64_t row = 0; row < queries; ++row) {
      const KeyRange range = within(visible_keys(segment, query + row - segment.q_begin), key, keys);
      any = pairs_.live(range, keys, query + row, first_key, head, live(row)) || any;
    }
    if (skips_ && !any) return;
    const std::int64_t kv_head = head / (tile_.q.heads / tile_.k.heads), block_row = query - first;
    k_.gather(first_key, keys, kv_head, k_rows_.data());
    v_.gather(first_key, keys, kv_head, v_rows_.data());
    auto p = p_.topLeftCorner(queries, keys);
    p.noalias() = q_rows_.middleRows(block_row, queries) * k_rows_.topRows(keys).transpose();
    for (std::int64_t row = 0; row < queries; ++row) {
      pairs_.score(live(row), keys, query + row, first_key, head, static_cast<T>(tile_.scale), &p_(row, 0),
                   nullptr);
      softmax_row(live(row), keys, block_row + row, &p_(row, 0));
    }
    const auto values = v_rows_.topRows(keys);
    if (values.allFinite()) {
      sum_out_.middleRows(block_row, queries).noalias() += p * values;
      return;
    }
    for (std::int64_t row = 0; row < queries; ++row)  // no zero times NaN
      for (std::int64_t j = 0; j < keys; ++j)
        if (live(row)[j]) sum_out_.row(block_row + row) += p(row, j) * values.row(j);
  }

  void softmax_row(const char* live, std::int64_t keys, std::int64_t row, T* p) {
    T& maximum = maximum_[static_cast<std::size_t>(row)];
    T& sum = sum_[static_cast<std::size_t>(row)];
    T highest = maximum;
    for (std::int64_t j = 0; j < keys; ++j)
      if (live[j] && p[j] > highest) highest = p[j];
    if (highest != maximum) {
      const T rescale = std::exp(maximum - highest);
      sum *= rescale;
      sum_out_.row(row) *= rescale;
    }
    maximum = highest;
    const T shift = highest == minus_infinity ? T{0} : highest;
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = live[j] ? std::exp(p[j] - shift) : T{0};
      sum += p[j];
    }
    round_elements(p, keys, tile_.v.dtype);
  }

  void write_row(std::int64_t block_row, std::int64_t row, std::int64_t head) {
    const T sum = sum_[static_cast<std::size_t>(block_row)];
    const bool empty = sum == T{0};
    if (tile_.write == Write::merge && empty) return;
    T lse = minus_infinity;
    if (!empty) {
      const T maximum = maximum_[static_cast<std::size_t>(block_row)];
      lse = (maximum == minus_infinity ? T{0} : maximum) + std::log(sum);
      sum_out_.row(block_row) /= sum;
    }
    T* row_out = &sum_out_(block_row, 0);
    if (tile_.write == Write::merge) {
      merge_row(careful_merge(), tile_.v.dtype, row_out, lse, out_, lse_, row, head, scratch_.data());
    } else {
      out_.store(row, head, row_out);
      lse_.store_first(row, head, lse);
    }
  }

  char* live(std::int64_t row) { return &live_[static_cast<std::size_t>(row * key_block)]; }

  const Attend& tile_;
  bool skips_;
  Pairs<T> pairs_;
  ViewRows q_, k_, v_, out_, lse_;
  TileMatrix<T> q_rows_, k_rows_, v_rows_;
  TileMatrix<T> p_;
  TileMatrix<T> sum_out_, scratch_;
  std::vector<char> live_;  // by row and key of the block: the pair counts
  std::vector<T> maximum_, sum_;
};

}  // namespace

void masked_attend_cpu(const MaskedAttend& call, bool skips) {
  check_call(call);
  const bool wide = call.tile.q.dtype == DType::fp64;
  wide ? MaskedTile<double>(call, skips).run() : MaskedTile<float>(call, skips).run();
}

}  // namespace cplab::kernels
