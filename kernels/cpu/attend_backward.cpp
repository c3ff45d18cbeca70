// Gradients of a softmax attention tile from the final lse and delta (FlashAttention 2, backward): every
// block is independent and only adds, so dq, dk and dv are plain sums in T (fp32, or fp64 for fp64 operands),
// rounded once when they are written.
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/band.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/gradient_rows.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {
namespace {

constexpr std::int64_t query_block = 64;
constexpr std::int64_t key_block = 128;

template <class T>
using TileMatrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

template <class T>
class BackwardTile {
 public:
  explicit BackwardTile(const AttendBackward& operation)
      : operation_(operation),
        q_(operation.q),
        k_(operation.k),
        v_(operation.v),
        dout_(operation.dout),
        lse_(operation.lse),
        delta_(operation.delta),
        q_rows_(query_block, operation.q.width),
        dout_rows_(query_block, operation.v.width),
        k_rows_(key_block, operation.k.width),
        v_rows_(key_block, operation.v.width),
        p_(query_block, key_block),
        ds_(query_block, key_block),
        ranges_(query_block),
        lse_rows_(query_block),
        delta_rows_(query_block),
        dq_sum_(operation.q.rows, operation.q.width),
        dk_sum_(operation.k.rows, operation.k.width),
        dv_sum_(operation.v.rows, operation.v.width) {}

  void run() {
    const ViewRows dq(operation_.dq);
    const ViewRows dk(operation_.dk);
    const ViewRows dv(operation_.dv);
    const auto scale = static_cast<T>(operation_.scale);
    const std::int64_t group = operation_.k.heads == 0 ? 0 : operation_.q.heads / operation_.k.heads;
    for (std::int64_t kv_head = 0; kv_head < operation_.k.heads; ++kv_head) {
      dk_sum_.clear();
      dv_sum_.clear();
      for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
        dq_sum_.clear();
        for (const Segment& segment : operation_.segments) add_segment(segment, head, kv_head);
        dq_sum_.write_to(dq, head, operation_.write_dq, scale);
      }
      dk_sum_.write_to(dk, kv_head, operation_.write_dk, scale);
      dv_sum_.write_to(dv, kv_head, operation_.write_dk, T{1});
    }
  }

 private:
  void add_segment(const Segment& segment, std::int64_t head, std::int64_t kv_head) {
    for (std::int64_t query = 0; query < segment.q_count; query += query_block) {
      const std::int64_t queries = std::min(query_block, segment.q_count - query);
      const std::int64_t keys_begin = visible_keys(segment, query).begin;
      const std::int64_t keys_end = visible_keys(segment, query + queries - 1).end;
      if (keys_begin >= keys_end) continue;
      load_queries(segment.q_begin + query, queries, head);
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        add_block(segment, query, queries, key, std::min(key_block, keys_end - key), kv_head);
    }
  }

  void load_queries(std::int64_t first, std::int64_t queries, std::int64_t head) {
    q_.gather(first, queries, head, q_rows_.data());
    dout_.gather(first, queries, head, dout_rows_.data());
    lse_.gather(first, queries, head, lse_rows_.data());
    delta_.gather(first, queries, head, delta_rows_.data());
    queries_finite_ = q_rows_.topRows(queries).allFinite() && dout_rows_.topRows(queries).allFinite();
  }

  // A final lse of -inf: the row sees no key of any tile. Its gradient is 0, it contributes to no other, and
  // its operands may hold anything.
  bool is_empty(std::int64_t row) const {
    return lse_rows_[static_cast<std::size_t>(row)] == -std::numeric_limits<T>::infinity();
  }

  void add_block(const Segment& segment, std::int64_t query, std::int64_t queries, std::int64_t key,
                 std::int64_t keys, std::int64_t kv_head) {
    const std::int64_t first_query = segment.q_begin + query;
    const std::int64_t first_key = segment.k_begin + key;
    k_.gather(first_key, keys, kv_head, k_rows_.data());
    v_.gather(first_key, keys, kv_head, v_rows_.data());
    const auto q = q_rows_.topRows(queries);
    const auto dout = dout_rows_.topRows(queries);
    const auto k = k_rows_.topRows(keys);
    auto p = p_.topLeftCorner(queries, keys);
    auto ds = ds_.topLeftCorner(queries, keys);
    p.noalias() = q * k.transpose();
    ds.noalias() = dout * v_rows_.topRows(keys).transpose();
    for (std::int64_t row = 0; row < queries; ++row) {
      KeyRange range = within(visible_keys(segment, query + row), key, keys);
      if (is_empty(row) || range.end <= range.begin) range = {};
      differentiate_row(range, keys, row);
      ranges_[static_cast<std::size_t>(row)] = range;
      if (range.end == range.begin) continue;
      dq_sum_.mark(first_query + row, first_query + row + 1);
      dk_sum_.mark(first_key + range.begin, first_key + range.end);
      dv_sum_.mark(first_key + range.begin, first_key + range.end);
    }
    if (queries_finite_ && k.allFinite()) {
      dq_sum_.sum.middleRows(first_query, queries).noalias() += ds * k;
      dk_sum_.sum.middleRows(first_key, keys).noalias() += ds.transpose() * q;
      dv_sum_.sum.middleRows(first_key, keys).noalias() += p.transpose() * dout;
      return;
    }
    // A masked pair must contribute nothing, not even zero times NaN.
    for (std::int64_t row = 0; row < queries; ++row) {
      const KeyRange range = ranges_[static_cast<std::size_t>(row)];
      for (std::int64_t j = range.begin; j < range.end; ++j) {
        dq_sum_.sum.row(first_query + row) += ds(row, j) * k.row(j);
        dk_sum_.sum.row(first_key + j) += ds(row, j) * q.row(row);
        dv_sum_.sum.row(first_key + j) += p(row, j) * dout.row(row);
      }
    }
  }

  // From q.k in p_ and dout.v in ds_ to P and dS, each rounded as a tensor-core kernel would; dS from the
  // unrounded P. Pairs outside `range` are exactly 0.
  void differentiate_row(KeyRange range, std::int64_t keys, std::int64_t row) {
    T* p = &p_(row, 0);
    T* ds = &ds_(row, 0);
    std::fill(p, p + range.begin, T{0});
    std::fill(ds, ds + range.begin, T{0});
    std::fill(p + range.end, p + keys, T{0});
    std::fill(ds + range.end, ds + keys, T{0});
    const auto scale = static_cast<T>(operation_.scale);
    const T lse = lse_rows_[static_cast<std::size_t>(row)];
    const T delta = delta_rows_[static_cast<std::size_t>(row)];
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] = std::exp(scale * p[j] - lse);
      ds[j] = p[j] * (ds[j] - delta);
    }
    round_elements(p + range.begin, range.end - range.begin, operation_.v.dtype);
    round_elements(ds + range.begin, range.end - range.begin, operation_.k.dtype);
  }

  const AttendBackward& operation_;
  ViewRows q_, k_, v_, dout_, lse_, delta_;
  TileMatrix<T> q_rows_, dout_rows_, k_rows_, v_rows_;  // gathered blocks, widened
  TileMatrix<T> p_, ds_;
  std::vector<KeyRange> ranges_;
  std::vector<T> lse_rows_, delta_rows_;
  bool queries_finite_ = true;
  Gradient<TileMatrix<T>> dq_sum_, dk_sum_, dv_sum_;
};

}  // namespace

void attend_backward_cpu(const AttendBackward& operation) {
  check_call(operation);
  const bool wide = operation.q.dtype == DType::fp64 || operation.k.dtype == DType::fp64 ||
                    operation.v.dtype == DType::fp64;
  wide ? BackwardTile<double>(operation).run() : BackwardTile<float>(operation).run();
}

}  // namespace cplab::kernels
