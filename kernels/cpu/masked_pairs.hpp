// What the tiles that change logits share: bias and keep mask by pair, and the softcap.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <vector>

#include "kernels/cpu/band.hpp"
#include "kernels/cpu/convert.hpp"
#include "kernels/cpu/view_rows.hpp"
#include "kernels/masked.hpp"

namespace cplab::kernels {

template <class T>
class Pairs {
 public:
  Pairs(const PairMask& mask, const View& q, const View& k)
      : mask_(mask),
        q_heads_(q.heads),
        k_rows_(k.rows),
        full_(!mask.columns.empty() && !mask.placed()),
        softcap_(static_cast<T>(mask.softcap)) {
    if (mask.bias) bias_.emplace(*mask.bias);
    if (mask.keep) keep_.emplace(*mask.keep);
    if (mask.table) table_.emplace(*mask.table);
    for (const RowRun& run : mask.columns)
      for (std::int64_t i = 0; i < run.count; ++i) columns_.push_back(run.begin + i * run.step);
  }

  bool full() const { return full_; }
  std::int64_t column(std::int64_t key) const { return columns_[static_cast<std::size_t>(key)]; }

  // Of a bias of positions: that of the key less that of the query.
  std::int64_t distance(std::int64_t row, std::int64_t key) const {
    return column(key) - column(k_rows_ + row);
  }
  // The column of the table.
  std::int64_t bucket(std::int64_t row, std::int64_t key) const {
    const std::int64_t d = distance(row, key),
                       far = mask_.both_ways ? std::abs(d) : std::max<std::int64_t>(-d, 0);
    const std::int64_t found =
        std::upper_bound(mask_.starts.begin(), mask_.starts.end(), far) - mask_.starts.begin();
    return found + (mask_.both_ways && d > 0 ? std::ssize(mask_.starts) + 1 : 0);
  }

  // Which of the keys first_key .. + keys count for the row: those of `range` (counted from first_key) that
  // are kept. False: none.
  bool live(KeyRange range, std::int64_t keys, std::int64_t row, std::int64_t first_key, std::int64_t head,
            char* live) const {
    bool any = false;
    for (std::int64_t j = 0; j < keys; ++j) {
      live[j] = range.begin <= j && j < range.end && (!keep_ || at(*keep_, row, first_key + j, head) != T{0});
      any = any || live[j] != 0;
    }
    return any;
  }

  // From q.k to x; `slope`, if given, becomes dx/dz. Only where the pair counts.
  void score(const char* live, std::int64_t keys, std::int64_t row, std::int64_t first_key, std::int64_t head,
             T scale, T* x, T* slope) const {
    for (std::int64_t j = 0; j < keys; ++j) {
      if (!live[j]) continue;
      x[j] *= scale;
      if (bias_) x[j] += at(*bias_, row, first_key + j, head);
      if (mask_.placed()) x[j] += placed(row, first_key + j, head);
      if (slope) slope[j] = T{1};
      if (softcap_ == T{0}) continue;
      const T t = std::tanh(x[j] / softcap_);
      x[j] = softcap_ * t;
      if (slope) slope[j] = 1 - t * t;
    }
  }

 private:
  T at(const ViewRows& rows, std::int64_t row, std::int64_t key, std::int64_t head) const {
    const View& view = rows.view();
    const std::int64_t of = head / (q_heads_ / view.heads);
    const auto skipped = full_ ? column(key) * static_cast<std::int64_t>(bytes_of(view.dtype)) : 0;
    T value = 0;
    load_elements(rows.address(full_ ? row : key, of) + skipped, view.dtype, 1, &value);
    return value;
  }

  T placed(std::int64_t row, std::int64_t key, std::int64_t head) const {
    if (table_) return table_rows(head)[static_cast<std::size_t>(bucket(row, key))];
    return -static_cast<T>(mask_.slopes[static_cast<std::size_t>(head)]) *
           static_cast<T>(std::abs(distance(row, key)));
  }
  const std::vector<T>& table_rows(std::int64_t head) const {
    if (of_head_ != head) {
      row_of_table_.resize(static_cast<std::size_t>(table_->width()));
      table_->load(0, head, row_of_table_.data());
      of_head_ = head;
    }
    return row_of_table_;
  }

  const PairMask& mask_;
  std::int64_t q_heads_, k_rows_;
  bool full_;
  T softcap_;
  std::optional<ViewRows> bias_, keep_, table_;
  std::vector<std::int64_t> columns_;    // by row of k; positions: then by row of q
  mutable std::vector<T> row_of_table_;  // of the head that was asked for last
  mutable std::int64_t of_head_ = -1;
};

}  // namespace cplab::kernels
