// How the pools of a rank are filled: equal lists once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <unordered_map>
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
    for (const T& item : list) hash = mix(hash, item);
    auto [begin, end] = spans_.equal_range(hash);
    for (; begin != end; ++begin) {
      const Span s = begin->second;
      if (s.count == list.size() && std::equal(list.begin(), list.end(), pool.begin() + s.first)) return s;
    }
    const Span s{static_cast<std::uint32_t>(pool.size()), static_cast<std::uint32_t>(list.size())};
    pool.insert(pool.end(), list.begin(), list.end());
    spans_.emplace(hash, s);
    return s;
  }

 private:
  static std::uint64_t step(std::uint64_t hash, std::int64_t word) {
    hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9E3779B97F4A7C15u;
    return hash ^ (hash >> 29);
  }
  static std::uint64_t mix(std::uint64_t h, std::uint32_t edge) { return step(h, edge); }
  static std::uint64_t mix(std::uint64_t h, const RowRange& r) {
    return step(step(step(h, r.begin), r.count), r.step);
  }
  static std::uint64_t mix(std::uint64_t h, const Access& a) {
    return step(step(step(h, a.view), static_cast<std::int64_t>(a.mode)),
                static_cast<std::int64_t>(a.operand));
  }
  static std::uint64_t mix(std::uint64_t h, const Part& p) {
    return step(step(step(h, p.view), p.peer), p.send);
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
    h = step(step(step(h, v.buffer), v.ranges.first), v.ranges.count);
    h = step(step(step(h, v.slot_begin), v.slot_end), v.head_begin);
    return step(step(step(h, v.head_end), v.width_begin), v.width_end);
  }

  std::unordered_multimap<std::uint64_t, Span> spans_;
};

}  // namespace cplab
