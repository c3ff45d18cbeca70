// Gradients of a softmax attention tile from the final lse and delta.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/cpu_tiles.hpp"
#include "kernels/cpu/gradient_blocks.hpp"
#include "kernels/cpu/workers.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class BackwardTile {
 public:
  explicit BackwardTile(const AttendBackward& operation)
      : operation_(operation), blocks_(operation), ranges_(query_block) {}

  // One key head, with the query heads that read it.
  void run(std::int64_t kv_head) {
    const ViewRows dq(operation_.dq);
    const ViewRows dk(operation_.dk);
    const ViewRows dv(operation_.dv);
    const auto scale = static_cast<T>(operation_.scale);
    const std::int64_t group = operation_.q.heads / operation_.k.heads;
    blocks_.dk.clear();
    blocks_.dv.clear();
    for (std::int64_t head = kv_head * group; head < (kv_head + 1) * group; ++head) {
      blocks_.dq.clear();
      for (const Segment& segment : operation_.segments)
        blocks_.each(segment, head,
                     [&](std::int64_t query, std::int64_t queries, std::int64_t key, std::int64_t keys) {
                       add_block(segment, query, queries, key, keys, kv_head);
                     });
      blocks_.dq.write_to(dq, head, operation_.write_dq, scale);
    }
    blocks_.dk.write_to(dk, kv_head, operation_.write_dk, scale);
    blocks_.dv.write_to(dv, kv_head, operation_.write_dk, T{1});
  }

 private:
  void add_block(const Segment& segment, std::int64_t query, std::int64_t queries, std::int64_t key,
                 std::int64_t keys, std::int64_t kv_head) {
    const std::int64_t first_query = segment.q_begin + query;
    const std::int64_t first_key = segment.k_begin + key;
    blocks_.multiply(queries, first_key, keys, kv_head);
    for (std::int64_t row = 0; row < queries; ++row) {
      KeyRange range = within(visible_keys(segment, query + row), key, keys);
      if (blocks_.is_empty(row) || range.end <= range.begin) range = {};
      differentiate_row(range, keys, row);
      ranges_[static_cast<std::size_t>(row)] = range;
      if (range.end == range.begin) continue;
      blocks_.dq.mark(first_query + row, first_query + row + 1);
      blocks_.dk.mark(first_key + range.begin, first_key + range.end);
      blocks_.dv.mark(first_key + range.begin, first_key + range.end);
    }
    blocks_.add(first_query, queries, first_key, keys, [&](std::int64_t row, std::int64_t j) {
      const KeyRange range = ranges_[static_cast<std::size_t>(row)];
      return range.begin <= j && j < range.end;
    });
  }

  // From q.k and dout.v to P and dS, each rounded as a tensor-core kernel would; dS from the unrounded P.
  // Pairs outside `range` are exactly 0.
  void differentiate_row(KeyRange range, std::int64_t keys, std::int64_t row) {
    T* p = blocks_.p(row);
    T* ds = blocks_.ds(row);
    std::fill(p, p + range.begin, T{0});
    std::fill(ds, ds + range.begin, T{0});
    std::fill(p + range.end, p + keys, T{0});
    std::fill(ds + range.end, ds + keys, T{0});
    const auto scale = static_cast<T>(operation_.scale);
    const T lse = blocks_.lse(row);
    const T delta = blocks_.delta(row);
    for (std::int64_t j = range.begin; j < range.end; ++j) {
      p[j] = std::exp(scale * p[j] - lse);
      ds[j] = p[j] * (ds[j] - delta);
    }
    round_elements(p + range.begin, range.end - range.begin, operation_.v.dtype);
    round_elements(ds + range.begin, range.end - range.begin, operation_.k.dtype);
  }

  const AttendBackward& operation_;
  GradientBlocks<T> blocks_;
  std::vector<KeyRange> ranges_;  // by row of the block: keys that it sees
};

// Every key head by itself.
template <class T>
void differentiate(const AttendBackward& operation) {
  const std::int64_t units = operation.k.heads;
  std::atomic<std::int64_t> next{0};
  const double products = 2.5 * products_of(operation.q, operation.v, operation.segments);
  on_workers(worker_count(units, products), [&](int) {
    BackwardTile<T> tile(operation);
    for (std::int64_t unit = 0; (unit = next++) < units;) tile.run(unit);
  });
}

}  // namespace

void attend_backward_cpu(const AttendBackward& operation) {
  check_call(operation);
  if (operation.out) cpu_tiles().row_dot(operation.dout, *operation.out, operation.delta);
  const bool wide = any_fp64({&operation.q, &operation.k, &operation.v});
  wide ? differentiate<double>(operation) : differentiate<float>(operation);
  if (operation.rounded_dq) cpu_tiles().copy(operation.dq, *operation.rounded_dq);
  if (operation.rounded_dk) cpu_tiles().copy(operation.dk, *operation.rounded_dk);
  if (operation.rounded_dv) cpu_tiles().copy(operation.dv, *operation.rounded_dv);
}

}  // namespace cplab::kernels
