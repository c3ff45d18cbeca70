// How the pools of a rank are filled: equal lists once.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Lists of plain structs, stored once each: looked up by the hash of their words. The empty list takes no
// place.
template <class T>
class Interner {
 public:
  Span operator()(std::vector<T>& pool, const std::vector<T>& list) {
    if (list.empty()) return {};
    std::uint64_t hash = list.size();
    for (const T& item : list)  // items do not wait for one another
      hash = step(hash, static_cast<std::int64_t>(mix(0x9E3779B97F4A7C15u, item)));
    if (2 * (known_ + 1) > table_.size()) grow();
    std::size_t at = place_of(hash);
    for (; table_[at].span.count > 0; at = (at + 1) & (table_.size() - 1)) {
      const Span s = table_[at].span;
      if (table_[at].hash == hash && s.count == list.size() &&
          std::equal(list.begin(), list.end(), pool.begin() + s.first))
        return s;
    }
    const Span s{static_cast<std::uint32_t>(pool.size()), static_cast<std::uint32_t>(list.size())};
    pool.insert(pool.end(), list.begin(), list.end());
    table_[at] = {hash, s};
    ++known_;
    return s;
  }

 private:
  struct Entry {
    std::uint64_t hash = 0;
    Span span;  // of nothing: there is no entry
  };
  std::size_t place_of(std::uint64_t hash) const {
    return static_cast<std::size_t>(hash) & (table_.size() - 1);
  }
  void grow() {
    std::vector<Entry> old(std::max<std::size_t>(16, 2 * table_.size()));
    std::swap(old, table_);
    for (const Entry& entry : old) {
      if (entry.span.count == 0) continue;
      std::size_t at = place_of(entry.hash);
      while (table_[at].span.count > 0) at = (at + 1) & (table_.size() - 1);
      table_[at] = entry;
    }
  }

  static std::uint64_t step(std::uint64_t hash, std::int64_t word) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
  }
  static std::uint64_t mix(std::uint64_t h, std::uint32_t edge) { return step(h, edge); }
  static std::uint64_t mix(std::uint64_t h, const RowRange& r) {
    return step(step(step(h, r.begin), r.count), r.step);
  }
  // Two numbers of 32 bits in one word.
  static std::uint64_t step(std::uint64_t hash, std::uint32_t high, std::uint32_t low) {
    return step(hash, static_cast<std::int64_t>(std::uint64_t{high} << 32 | low));
  }
  static std::uint64_t mix(std::uint64_t h, const Access& a) {
    return step(h, a.view, static_cast<std::uint32_t>(a.mode) << 8 | static_cast<std::uint32_t>(a.operand));
  }
  static std::uint64_t mix(std::uint64_t h, const Part& p) {
    return step(h, p.view, static_cast<std::uint32_t>(p.peer) << 1 | (p.send ? 1u : 0u));
  }
  static std::uint64_t mix(std::uint64_t h, const Segment& s) {
    h = step(step(step(h, s.q_begin), s.q_count), s.k_begin);
    return step(step(step(step(h, s.k_count), s.offset), s.left), s.right);
  }
  static std::uint64_t mix(std::uint64_t h, const Chunk& c) {
    h = step(step(h, static_cast<std::int64_t>(c.row)), static_cast<std::int64_t>(c.count));
    h = step(step(h, static_cast<std::int64_t>(c.left_exponent)),
             static_cast<std::int64_t>(c.right_exponent));
    return step(h, static_cast<std::int64_t>(c.state) * 2 + (c.resets ? 1 : 0));
  }
  static std::uint64_t mix(std::uint64_t h, const View& v) {
    const auto pair = [](std::int32_t a, std::int32_t b) {
      return static_cast<std::int64_t>(std::uint64_t{static_cast<std::uint32_t>(a)} << 32 |
                                       static_cast<std::uint32_t>(b));
    };
    h = step(step(step(h, v.buffer, v.ranges.first), v.ranges.count), pair(v.slot_begin, v.slot_end));
    return step(step(h, pair(v.head_begin, v.head_end)), pair(v.width_begin, v.width_end));
  }

  // Where an entry's place is taken it stands in the next free one. The size is a power of two.
  std::vector<Entry> table_;
  std::size_t known_ = 0;
};

}  // namespace cplab
