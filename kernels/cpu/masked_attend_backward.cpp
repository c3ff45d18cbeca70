// Gradients of a tile of dynamic mask attention from the final lse and delta, as attend_backward.cpp: every
// block only adds to sums in T, which are rounded once when they are written. dbias is summed from dz before
// it is rounded for the products.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/gradient_rows.hpp"
#include "kernels/cpu/masked_pairs.hpp"

namespace cplab::kernels {
namespace {

constexpr std::int64_t query_block = 64;
constexpr std::int64_t key_block = 128;

template <class T>
using TileMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// A bias gradient of one bias head: full [nq, columns] or keys [nk, 1].
template <class T>
class BiasSum {
 public:
  BiasSum(const View& view, bool full)
      : full_(full), rows_(view), sum_(view.rows, view.width), seen_(static_cast<std::size_t>(sum_.size())) {}
  void clear() {
    sum_.setZero();
    std::fill(seen_.begin(), seen_.end(), char{0});
  }
  void add(std::int64_t row, std::int64_t key, std::int64_t column, T value) {
    const std::int64_t at = full_ ? row * sum_.cols() + column : key;
    sum_.data()[at] += value;
    seen_[static_cast<std::size_t>(at)] = 1;
  }
  void write(std::int64_t head, Write mode) {
    std::vector<T> held(static_cast<std::size_t>(sum_.cols()), T{0});
    for (std::int64_t row = 0; row < sum_.rows(); ++row) {
      const char* seen = &seen_[static_cast<std::size_t>(row * sum_.cols())];
      if (mode == Write::add) {
        if (std::find(seen, seen + sum_.cols(), char{1}) == seen + sum_.cols()) continue;
        rows_.load(row, head, held.data());
      }
      for (std::int64_t x = 0; x < sum_.cols(); ++x) {
        T& value = held[static_cast<std::size_t>(x)];
        if (mode == Write::store) value = sum_(row, x);
        if (mode == Write::add && seen[x]) value += sum_(row, x);
      }
      rows_.store(row, head, held.data());
    }
  }

 private:
  bool full_;
  ViewRows rows_;
  TileMatrix<T> sum_;
  std::vector<char> seen_;
};

template <class T>
class MaskedBackwardTile {
 public:
  MaskedBackwardTile(const MaskedAttendBackward& call, bool skips)
      : call_(call),
        tile_(call.tile),
        skips_(skips),
        pairs_(call.mask, tile_.q.heads),
        q_(tile_.q),
        k_(tile_.k),
        v_(tile_.v),
        dout_(tile_.dout),
        lse_(tile_.lse),
        delta_(tile_.delta),
        q_rows_(query_block, tile_.q.width),
        dout_rows_(query_block, tile_.v.width),
        k_rows_(key_block, tile_.k.width),
        v_rows_(key_block, tile_.v.width),
        p_(query_block, key_block),
        dz_(query_block, key_block),
        live_(query_block * key_block),
        slope_(key_block),
        lse_rows_(query_block),
        delta_rows_(query_block),
        dq_sum_(tile_.q.rows, tile_.q.width),
        dk_sum_(tile_.k.rows, tile_.k.width),
        dv_sum_(tile_.v.rows, tile_.v.width) {
    if (call.dbias) dbias_.emplace(*call.dbias, pairs_.full());
  }

  void run() {
    const ViewRows dq(tile_.dq), dk(tile_.dk), dv(tile_.dv);
    const auto scale = static_cast<T>(tile_.scale);
    const std::int64_t heads = tile_.q.heads, group = tile_.k.heads == 0 ? 0 : heads / tile_.k.heads;
    const std::int64_t of_bias = call_.dbias && heads > 0 ? heads / call_.dbias->heads : 1;
    for (std::int64_t head = 0; head < heads; ++head) {
      if (head % group == 0) dk_sum_.clear(), dv_sum_.clear();
      if (dbias_ && head % of_bias == 0) dbias_->clear();
      dq_sum_.clear();
      for (const Segment& segment : tile_.segments) add_segment(segment, head);
      dq_sum_.write_to(dq, head, tile_.write_dq, scale);
      if (dbias_ && (head + 1) % of_bias == 0) dbias_->write(head / of_bias, call_.write_dbias);
      if ((head + 1) % group != 0) continue;
      dk_sum_.write_to(dk, head / group, tile_.write_dk, scale);
      dv_sum_.write_to(dv, head / group, tile_.write_dk, T{1});
    }
  }

 private:
  void add_segment(const Segment& segment, std::int64_t head) {
    for (std::int64_t query = 0; query < segment.q_count; query += query_block) {
      const std::int64_t queries = std::min(query_block, segment.q_count - query);
      const std::int64_t keys_begin = visible_keys(segment, query).begin;
      const std::int64_t keys_end = visible_keys(segment, query + queries - 1).end;
      if (keys_begin >= keys_end) continue;
      const std::int64_t first = segment.q_begin + query;
      q_.gather(first, queries, head, q_rows_.data());
      dout_.gather(first, queries, head, dout_rows_.data());
      lse_.gather(first, queries, head, lse_rows_.data());
      delta_.gather(first, queries, head, delta_rows_.data());
      queries_finite_ = q_rows_.topRows(queries).allFinite() && dout_rows_.topRows(queries).allFinite();
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        add_block(segment, query, queries, key, std::min(key_block, keys_end - key), head);
    }
  }

  void add_block(const Segment& segment, std::int64_t query, std::int64_t queries, std::int64_t key,
                 std::int64_t keys, std::int64_t head) {
    const std::int64_t first_query = segment.q_begin + query, first_key = segment.k_begin + key;
    bool any = false;
    for (std::int64_t row = 0; row < queries; ++row) {
      KeyRange range = within(visible_keys(segment, query + row), key, keys);
      if (lse_rows_[static_cast<std::size_t>(row)] == -std::numeric_limits<T>::infinity()) range = {};
      any = pairs_.live(range, keys, first_query + row, first_key, head, live(row)) || any;
    }
    if (skips_ && !any) return;
    const std::int64_t kv_head = head / (tile_.q.heads / tile_.k.heads);
    k_.gather(first_key, keys, kv_head, k_rows_.data());
    v_.gather(first_key, keys, kv_head, v_rows_.data());
    const auto q = q_rows_.topRows(queries), dout = dout_rows_.topRows(queries);
    const auto k = k_rows_.topRows(keys);
    auto p = p_.topLeftCorner(queries, keys), dz = dz_.topLeftCorner(queries, keys);
    p.noalias() = q * k.transpose();
    dz.noalias() = dout * v_rows_.topRows(keys).transpose();
    for (std::int64_t row = 0; row < queries; ++row)
      differentiate_row(first_query, row, first_key, keys, head);
    if (queries_finite_ && k.allFinite()) {
      dq_sum_.sum.middleRows(first_query, queries).noalias() += dz * k;
      dk_sum_.sum.middleRows(first_key, keys).noalias() += dz.transpose() * q;
      dv_sum_.sum.middleRows(first_key, keys).noalias() += p.transpose() * dout;
      return;
    }
    for (std::int64_t row = 0; row < queries; ++row) {  // no zero times NaN
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!live(row)[j]) continue;
        dq_sum_.sum.row(first_query + row) += dz(row, j) * k.row(j);
        dk_sum_.sum.row(first_key + j) += dz(row, j) * q.row(row);
        dv_sum_.sum.row(first_key + j) += p(row, j) * dout.row(row);
      }
    }
  }

  // From q.k in p_ and dout.v in dz_ to P and dz, each rounded for the products; marks what is added to.
  void differentiate_row(std::int64_t first_query, std::int64_t row, std::int64_t first_key,
                         std::int64_t keys, std::int64_t head) {
    T *p = &p_(row, 0), *dz = &dz_(row, 0);
    const char* counts = live(row);
    const std::int64_t query = first_query + row;
    const T lse = lse_rows_[static_cast<std::size_t>(row)],
            delta = delta_rows_[static_cast<std::size_t>(row)];
    pairs_.score(counts, keys, query, first_key, head, static_cast<T>(tile_.scale), p, slope_.data());
    for (std::int64_t j = 0; j < keys; ++j) {
      if (!counts[j]) {
        p[j] = dz[j] = T{0};
        continue;
      }
      p[j] = std::exp(p[j] - lse);
      dz[j] = p[j] * (dz[j] - delta) * slope_[static_cast<std::size_t>(j)];
      const std::int64_t key = first_key + j;
      if (dbias_) dbias_->add(query, key, pairs_.full() ? pairs_.column(key) : 0, dz[j]);
      dq_sum_.mark(query, query + 1);
      dk_sum_.mark(key, key + 1);
      dv_sum_.mark(key, key + 1);
    }
    round_elements(p, keys, tile_.v.dtype);
    round_elements(dz, keys, tile_.k.dtype);
  }

  char* live(std::int64_t row) { return &live_[static_cast<std::size_t>(row * key_block)]; }

  const MaskedAttendBackward& call_;
  const AttendBackward& tile_;
  bool skips_;
  Pairs<T> pairs_;
  ViewRows q_, k_, v_, dout_, lse_, delta_;
  TileMatrix<T> q_rows_, dout_rows_, k_rows_, v_rows_;
  TileMatrix<T> p_, dz_;
  std::vector<char> live_;
  std::vector<T> slope_, lse_rows_, delta_rows_;
  bool queries_finite_ = true;
  Gradient<TileMatrix<T>> dq_sum_, dk_sum_, dv_sum_;
  std::optional<BiasSum<T>> dbias_;
};

}  // namespace

void masked_attend_backward_cpu(const MaskedAttendBackward& call, bool skips) {
  check_call(call);
  const bool wide = call.tile.q.dtype == DType::fp64;
  wide ? MaskedBackwardTile<double>(call, skips).run() : MaskedBackwardTile<float>(call, skips).run();
}

}  // namespace cplab::kernels
