// Gradients of a tile that changes logits from the final lse and delta, pair by pair. Gradients of biases are
// summed from dz before it is rounded for the products.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <vector>

#include "kernels/call_checks.hpp"
#include "kernels/cpu/gradient_blocks.hpp"
#include "kernels/cpu/masked_pairs.hpp"

namespace cplab::kernels {
namespace {

// A bias gradient of one bias head: full [nq, columns] or keys [nk, 1].
template <class T>
class BiasSum {
 public:
  BiasSum(const View& view, bool full)
      : full_(full), rows_(view), sum_(view.rows, view.width), seen_(static_cast<std::size_t>(sum_.size())) {}
  void clear() {
    sum_.set_zero();
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
        if (mode == Write::store) value = sum_.row(row)[x];
        if (mode == Write::add && seen[x]) value += sum_.row(row)[x];
      }
      rows_.store(row, head, held.data());
    }
  }

 private:
  bool full_;
  ViewRows rows_;
  RowMatrix<T> sum_;
  std::vector<char> seen_;
};

template <class T>
class MaskedBackwardTile {
 public:
  MaskedBackwardTile(const MaskedAttendBackward& call, bool skips)
      : call_(call),
        tile_(call.tile),
        skips_(skips),
        pairs_(call.mask, tile_.q, tile_.k),
        blocks_(tile_),
        live_(query_block * key_block),
        slope_(key_block) {
    if (call.dbias) dbias_.emplace(*call.dbias, pairs_.full());
  }

  void run() {
    const ViewRows dq(tile_.dq), dk(tile_.dk), dv(tile_.dv);
    const auto scale = static_cast<T>(tile_.scale);
    const std::int64_t heads = tile_.q.heads, group = tile_.k.heads == 0 ? 0 : heads / tile_.k.heads;
    const std::int64_t of_bias = call_.dbias && heads > 0 ? heads / call_.dbias->heads : 1;
    for (std::int64_t head = 0; head < heads; ++head) {
      if (head % group == 0) blocks_.dk.clear(), blocks_.dv.clear();
      if (dbias_ && head % of_bias == 0) dbias_->clear();
      blocks_.dq.clear();
      if (call_.dtable) dtable_.assign(static_cast<std::size_t>(call_.dtable->width), T{0});
      for (const Segment& segment : tile_.segments)
        blocks_.each(segment, head,
                     [&](std::int64_t query, std::int64_t queries, std::int64_t key, std::int64_t keys) {
                       add_block(segment, query, queries, key, keys, head);
                     });
      blocks_.dq.write_to(dq, head, tile_.write_dq, scale);
      if (call_.dtable) add_table(head);
      if (dbias_ && (head + 1) % of_bias == 0) dbias_->write(head / of_bias, call_.write_dbias);
      if ((head + 1) % group != 0) continue;
      blocks_.dk.write_to(dk, head / group, tile_.write_dk, scale);
      blocks_.dv.write_to(dv, head / group, tile_.write_dk, T{1});
    }
  }

 private:
  void add_table(std::int64_t head) {
    const ViewRows into(*call_.dtable);
    std::vector<T> held(dtable_.size());
    into.load(0, head, held.data());
    for (std::size_t x = 0; x < held.size(); ++x) held[x] += dtable_[x];
    into.store(0, head, held.data());
  }

  void add_block(const Segment& segment, std::int64_t query, std::int64_t queries, std::int64_t key,
                 std::int64_t keys, std::int64_t head) {
    const std::int64_t first_query = segment.q_begin + query, first_key = segment.k_begin + key;
    bool any = false;
    for (std::int64_t row = 0; row < queries; ++row) {
      KeyRange range = within(visible_keys(segment, query + row), key, keys);
      if (blocks_.is_empty(row)) range = {};
      any = pairs_.live(range, keys, first_query + row, first_key, head, live(row)) || any;
    }
    if (skips_ && !any) return;
    blocks_.multiply(queries, first_key, keys, head / (tile_.q.heads / tile_.k.heads));
    for (std::int64_t row = 0; row < queries; ++row)
      differentiate_row(first_query, row, first_key, keys, head);
    blocks_.add(first_query, queries, first_key, keys,
                [&](std::int64_t row, std::int64_t j) { return live(row)[j] != 0; });
  }

  // From q.k and dout.v to P and dz, each rounded for the products; marks what is added to.
  void differentiate_row(std::int64_t first_query, std::int64_t row, std::int64_t first_key,
                         std::int64_t keys, std::int64_t head) {
    T *p = blocks_.p(row), *dz = blocks_.ds(row);
    const char* counts = live(row);
    const std::int64_t query = first_query + row;
    const T lse = blocks_.lse(row), delta = blocks_.delta(row);
    pairs_.score(counts, keys, query, first_key, head, static_cast<T>(tile_.scale), p, slope_.data());
    for (std::int64_t j = 0; j < keys; ++j) {
      if (!counts[j]) {
        p[j] = dz[j] = T{0};
        continue;
      }
      p[j] = std::exp(p[j] - lse);
      dz[j] = p[j] * (dz[j] - delta) * slope_[static_cast<std::size_t>(j)];
      const std::int64_t key = first_key + j;
      if (call_.dtable) dtable_[static_cast<std::size_t>(pairs_.bucket(query, key))] += dz[j];
      if (dbias_) dbias_->add(query, key, pairs_.full() ? pairs_.column(key) : 0, dz[j]);
      blocks_.dq.mark(query, query + 1);
      blocks_.dk.mark(key, key + 1);
      blocks_.dv.mark(key, key + 1);
    }
    round_elements(p, keys, tile_.v.dtype);
    round_elements(dz, keys, tile_.k.dtype);
  }

  char* live(std::int64_t row) { return &live_[static_cast<std::size_t>(row * key_block)]; }

  const MaskedAttendBackward& call_;
  const AttendBackward& tile_;
  bool skips_;
  Pairs<T> pairs_;
  GradientBlocks<T> blocks_;
  std::vector<char> live_;         // by row and key of the block: the pair counts
  std::vector<T> slope_, dtable_;  // of a block's row; of a head
  std::optional<BiasSum<T>> dbias_;
};

}  // namespace

void masked_attend_backward_cpu(const MaskedAttendBackward& call, bool skips) {
  check_call(call);
  const bool wide = call.tile.q.dtype == DType::fp64;
  wide ? MaskedBackwardTile<double>(call, skips).run() : MaskedBackwardTile<float>(call, skips).run();
}

}  // namespace cplab::kernels
