// Softmax attention of a tile. A row's segments simply continue its softmax.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/online_rows.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class AttendTile {
 public:
  AttendTile(const MergeRule& rule, const Attend& operation)
      : operation_(operation), rows_(rule, operation), ranges_(query_block) {}

  void run() {
    const std::int64_t heads = operation_.q.heads;
    for (std::int64_t head = 0; head < heads; ++head) {
      const std::int64_t kv_head = head / (heads / operation_.k.heads);
      highest_ = OnlineRows<T>::minus_infinity;
      for (std::int64_t first = 0; first < operation_.q.rows; first += query_block) {
        const std::int64_t count = std::min(query_block, operation_.q.rows - first);
        rows_.attend(first, count, head,
                     [&](const Segment& segment, std::int64_t row, std::int64_t rows, std::int64_t key,
                         std::int64_t keys) {
                       attend_block(segment, row - first, row - segment.q_begin, rows, key, keys, kv_head);
                     });
        for (std::int64_t row = 0; row < count; ++row) highest_ = std::max(highest_, rows_.maximum(row));
      }
      if (operation_.max_logit) raise_max_logit(head);
    }
  }

 private:
  void raise_max_logit(std::int64_t head) const {
    const ViewRows max_logit(*operation_.max_logit);
    if (highest_ > max_logit.load_first<T>(0, head)) max_logit.store_first(0, head, highest_);
  }

  // Rows at `block_row` of the block, `query` of the segment, against keys at `key` of the segment.
  void attend_block(const Segment& segment, std::int64_t block_row, std::int64_t query, std::int64_t queries,
                    std::int64_t key, std::int64_t keys, std::int64_t kv_head) {
    T* const p = rows_.multiply(block_row, queries, segment.k_begin + key, keys, kv_head);
    for (std::int64_t row = 0; row < queries; ++row) {
      KeyRange& range = ranges_[static_cast<std::size_t>(row)];
      range = within(visible_keys(segment, query + row), key, keys);
      softmax_row(range, keys, block_row + row, p + row * OnlineRows<T>::row_stride);
    }
    rows_.add_values(block_row, queries, keys, [&](std::int64_t row, std::int64_t j) {
      const KeyRange range = ranges_[static_cast<std::size_t>(row)];
      return range.begin <= j && j < range.end;
    });
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
    T highest = rows_.maximum(row);
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] *= scale;
      if (p[j] > highest) highest = p[j];
    }
    const T shift = rows_.raise(row, highest);
    T& sum = rows_.sum(row);
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] = std::exp(p[j] - shift);
      sum += p[j];
    }
    round_elements(p + range.begin, range.end - range.begin, operation_.v.dtype);
  }

  const Attend& operation_;
  OnlineRows<T> rows_;
  std::vector<KeyRange> ranges_;  // by row of the block: keys that it sees
  T highest_ = 0;                 // scaled score of the head
};

}  // namespace

void attend_with(const MergeRule& rule, const Attend& operation) {
  check_call(operation);
  const bool wide = any_fp64({&operation.q, &operation.k, &operation.v});
  wide ? AttendTile<double>(rule, operation).run() : AttendTile<float>(rule, operation).run();
}

}  // namespace cplab::kernels
