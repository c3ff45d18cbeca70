// A tile that changes logits: which pairs count is asked pair by pair, and their scores have a bias and a
// softcap.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/masked_pairs.hpp"
#include "kernels/cpu/online_rows.hpp"

namespace cplab::kernels {
namespace {

template <class T>
class MaskedTile {
 public:
  MaskedTile(const MaskedAttend& call, bool skips)
      : tile_(call.tile),
        skips_(skips),
        pairs_(call.mask, call.tile.q, call.tile.k),
        rows_(careful_merge(), call.tile),
        live_(query_block * key_block) {}

  void run() {
    for (std::int64_t head = 0; head < tile_.q.heads; ++head)
      for (std::int64_t first = 0; first < tile_.q.rows; first += query_block)
        rows_.attend(first, std::min(query_block, tile_.q.rows - first), head,
                     [&](const Segment& segment, std::int64_t row, std::int64_t rows, std::int64_t key,
                         std::int64_t keys) { attend_block(segment, first, row, rows, key, keys, head); });
  }

 private:
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
    T* const p = rows_.multiply(block_row, queries, first_key, keys, kv_head);
    for (std::int64_t row = 0; row < queries; ++row) {
      T* const of_row = p + row * OnlineRows<T>::row_stride;
      pairs_.score(live(row), keys, query + row, first_key, head, static_cast<T>(tile_.scale), of_row,
                   nullptr);
      softmax_row(live(row), keys, block_row + row, of_row);
    }
    rows_.add_values(block_row, queries, keys,
                     [&](std::int64_t row, std::int64_t j) { return live(row)[j] != 0; });
  }

  void softmax_row(const char* live, std::int64_t keys, std::int64_t row, T* p) {
    T highest = rows_.maximum(row);
    for (std::int64_t j = 0; j < keys; ++j)
      if (live[j] && p[j] > highest) highest = p[j];
    const T shift = rows_.raise(row, highest);
    T& sum = rows_.sum(row);
    for (std::int64_t j = 0; j < keys; ++j) {
      p[j] = live[j] ? std::exp(p[j] - shift) : T{0};
      sum += p[j];
    }
    round_elements(p, keys, tile_.v.dtype);
  }

  char* live(std::int64_t row) { return &live_[static_cast<std::size_t>(row * key_block)]; }

  const Attend& tile_;
  bool skips_;
  Pairs<T> pairs_;
  OnlineRows<T> rows_;
  std::vector<char> live_;  // by row and key of the block: the pair counts
};

}  // namespace

void masked_attend_cpu(const MaskedAttend& call, bool skips) {
  check_call(call);
  const bool wide = call.tile.q.dtype == DType::fp64;
  wide ? MaskedTile<double>(call, skips).run() : MaskedTile<float>(call, skips).run();
}

const MaskedTiles& cpu_masked_tiles() {
  static const MaskedTiles tiles{[](const MaskedAttend& call) { masked_attend_cpu(call); },
                                 [](const MaskedAttendBackward& call) { masked_attend_backward_cpu(call); }};
  return tiles;
}

}  // namespace cplab::kernels
