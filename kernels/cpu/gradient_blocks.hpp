// The blocks of a backward tile (FlashAttention 2): every block is independent and only adds, so dq, dk and
// dv are plain sums in T (fp32, or fp64 for fp64 operands), rounded once when they are written. Of softmax
// and of dynamic mask attention.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/cpu/band.hpp"
#include "kernels/cpu/gradient_rows.hpp"
#include "kernels/cpu/row_matrix.hpp"
#include "kernels/cpu/tile_blocks.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/kernels.hpp"

namespace cplab::kernels {

template <class T>
class GradientBlocks {
 public:
  explicit GradientBlocks(const AttendBackward& call)
      : dq(call.q.rows, call.q.width),
        dk(call.k.rows, call.k.width),
        dv(call.v.rows, call.v.width),
        p_(query_block, key_block),
        ds_(query_block, key_block),
        q_(call.q),
        k_(call.k),
        v_(call.v),
        dout_(call.dout),
        lse_(call.lse),
        delta_(call.delta),
        q_rows_(query_block, call.q.width),
        dout_rows_(query_block, call.v.width),
        k_rows_(key_block, call.k.width),
        v_rows_(key_block, call.v.width),
        lse_rows_(query_block),
        delta_rows_(query_block) {}

  // All blocks of a segment for one query head, whose rows are loaded: visit(query, queries, key, keys), as
  // the segment counts them.
  template <class Visit>
  void each(const Segment& segment, std::int64_t head, Visit visit) {
    for (std::int64_t query = 0; query < segment.q_count; query += query_block) {
      const std::int64_t queries = std::min(query_block, segment.q_count - query);
      const std::int64_t keys_begin = visible_keys(segment, query).begin;
      const std::int64_t keys_end = visible_keys(segment, query + queries - 1).end;
      if (keys_begin >= keys_end) continue;
      load_queries(segment.q_begin + query, queries, head);
      for (std::int64_t key = keys_begin; key < keys_end; key += key_block)
        visit(query, queries, key, std::min(key_block, keys_end - key));
    }
  }

  // Of row i of the block.
  T lse(std::int64_t i) const { return lse_rows_[static_cast<std::size_t>(i)]; }
  T delta(std::int64_t i) const { return delta_rows_[static_cast<std::size_t>(i)]; }
  // A final lse of -inf: the row sees no key of any tile. Its gradient is 0, it contributes to no other, and
  // its operands may hold anything.
  bool is_empty(std::int64_t i) const { return lse(i) == -std::numeric_limits<T>::infinity(); }
  // After multiply() q.k and dout.v of row i; to become P and dS.
  T* p(std::int64_t i) { return p_.row(i); }
  T* ds(std::int64_t i) { return ds_.row(i); }

  void multiply(std::int64_t queries, std::int64_t first_key, std::int64_t keys, std::int64_t kv_head) {
    k_.gather(first_key, keys, kv_head, k_rows_.data());
    v_.gather(first_key, keys, kv_head, v_rows_.data());
    store_product_with_transposed<T>(q_rows_.rows_from(0, queries), k_rows_.rows_from(0, keys),
                                     p_.block(0, queries, keys));
    store_product_with_transposed<T>(dout_rows_.rows_from(0, queries), v_rows_.rows_from(0, keys),
                                     ds_.block(0, queries, keys));
  }

  // Adds dS K, dS^T Q and P^T dO of the block. counts(i, j) says whether its pair is live: another must
  // contribute nothing, not even zero times NaN.
  template <class Counts>
  void add(std::int64_t first_query, std::int64_t queries, std::int64_t first_key, std::int64_t keys,
           Counts counts) {
    const Block<const T> q = q_rows_.rows_from(0, queries), dout = dout_rows_.rows_from(0, queries),
                         k = k_rows_.rows_from(0, keys), p = p_.block(0, queries, keys),
                         ds = ds_.block(0, queries, keys);
    if (queries_finite_ && all_finite(k)) {
      add_product(ds, k, dq.sum.rows_from(first_query, queries));
      add_product_of_transposed(ds, q, dk.sum.rows_from(first_key, keys));
      add_product_of_transposed(p, dout, dv.sum.rows_from(first_key, keys));
      return;
    }
    for (std::int64_t i = 0; i < queries; ++i) {
      for (std::int64_t j = 0; j < keys; ++j) {
        if (!counts(i, j)) continue;
        add_scaled(dq.sum.row(first_query + i), ds.row(i)[j], k.row(j), k.cols);
        add_scaled(dk.sum.row(first_key + j), ds.row(i)[j], q.row(i), q.cols);
        add_scaled(dv.sum.row(first_key + j), p.row(i)[j], dout.row(i), dout.cols);
      }
    }
  }

  Gradient<T> dq, dk, dv;  // of one query head; of one key head

 private:
  void load_queries(std::int64_t first, std::int64_t queries, std::int64_t head) {
    q_.gather(first, queries, head, q_rows_.data());
    dout_.gather(first, queries, head, dout_rows_.data());
    lse_.gather(first, queries, head, lse_rows_.data());
    delta_.gather(first, queries, head, delta_rows_.data());
    queries_finite_ =
        all_finite<T>(q_rows_.rows_from(0, queries)) && all_finite<T>(dout_rows_.rows_from(0, queries));
  }

  RowMatrix<T> p_, ds_;
  ViewRows q_, k_, v_, dout_, lse_, delta_;
  RowMatrix<T> q_rows_, dout_rows_, k_rows_, v_rows_;  // gathered blocks, widened
  std::vector<T> lse_rows_, delta_rows_;
  bool queries_finite_ = true;
};

}  // namespace cplab::kernels
