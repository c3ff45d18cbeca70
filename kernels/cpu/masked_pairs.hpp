// What the tiles of dynamic mask attention share: bias and keep mask by pair, and the softcap.
#pragma once

#include <cmath>
#include <cstdint>
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
  Pairs(const PairMask& mask, std::int64_t q_heads)
      : q_heads_(q_heads), full_(!mask.columns.empty()), softcap_(static_cast<T>(mask.softcap)) {
    if (mask.bias) bias_.emplace(*mask.bias);
    if (mask.keep) keep_.emplace(*mask.keep);
    for (const RowRun& run : mask.columns)
      for (std::int64_t i = 0; i < run.count; ++i) columns_.push_back(run.begin + i * run.step);
  }

  bool full() const { return full_; }
  std::int64_t column(std::int64_t key) const { return columns_[static_cast<std::size_t>(key)]; }

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

  std::int64_t q_heads_;
  bool full_;
  T softcap_;
  std::optional<ViewRows> bias_, keep_;
  std::vector<std::int64_t> columns_;  // by row of k
};

}  // namespace cplab::kernels
