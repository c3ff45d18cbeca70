// Softmax attention of a tile. A row's segments simply continue its softmax.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/online_rows.hpp"
#include "kernels/cpu/workers.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class AttendTile {
 public:
  AttendTile(const MergeRule& rule, const Attend& operation)
      : operation_(operation), rows_(rule, operation), ranges_(query_block) {}

  // A block of query rows of one head: its largest scaled score.
  T run(std::int64_t first, std::int64_t head) {
    const std::int64_t kv_head = head / (operation_.q.heads / operation_.k.heads),
                       count = std::min(query_block, operation_.q.rows - first);
    T highest = OnlineRows<T>::minus_infinity;
    rows_.attend(first, count, head,
                 [&](const Segment& segment, std::int64_t row, std::int64_t rows, std::int64_t key,
                     std::int64_t keys) {
                   attend_block(segment, row - first, row - segment.q_begin, rows, key, keys, kv_head);
                   for (std::int64_t i = row - first; i < row - first + rows; ++i)
                     highest = std::max(highest, rows_.maximum(i));
                 });
    return highest;
  }

 private:
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
};

// Every block of rows and every head by itself.
template <class T>
void attend(const MergeRule& rule, const Attend& operation) {
  const std::int64_t heads = operation.q.heads, blocks = (operation.q.rows + query_block - 1) / query_block,
                     units = heads * blocks;
  std::vector<T> highest(static_cast<std::size_t>(units));
  std::atomic<std::int64_t> next{0};
  const double products = products_of(operation.q, operation.v, operation.segments);
  on_workers(worker_count(units, products), [&](int) {
    AttendTile<T> tile(rule, operation);
    for (std::int64_t unit = 0; (unit = next++) < units;)
      highest[static_cast<std::size_t>(unit)] = tile.run(unit % blocks * query_block, unit / blocks);
  });
  if (!operation.max_logit) return;
  const ViewRows max_logit(*operation.max_logit);
  for (std::int64_t head = 0; head < heads; ++head) {
    T most = OnlineRows<T>::minus_infinity;
    for (std::int64_t block = 0; block < blocks; ++block)
      most = std::max(most, highest[static_cast<std::size_t>(head * blocks + block)]);
    if (most > max_logit.load_first<T>(0, head)) max_logit.store_first(0, head, most);
  }
}

}  // namespace

void attend_with(const MergeRule& rule, const Attend& operation) {
  check_call(operation);
  const bool wide = any_fp64({&operation.q, &operation.k, &operation.v});
  wide ? attend<double>(rule, operation) : attend<float>(rule, operation);
}

}  // namespace cplab::kernels
