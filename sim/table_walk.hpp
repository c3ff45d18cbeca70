// What measured tables of attention are read by: how much a segment's rows meet, and tables over that.
// Internal to sim/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <vector>

#include "plan/live_pairs.hpp"
#include "sim/hardware.hpp"

namespace cplab {

// Points of a table lie at fractions, equal up to rounding.
constexpr double same_point = 1e-12;

// The first point at `x` or above.
template <class Value>
auto point_at_or_above(const std::map<double, Value>& points, double x) {
  return points.lower_bound(x - same_point * x);
}
template <class Value>
bool lies_at(const std::map<double, Value>& points, typename std::map<double, Value>::const_iterator point,
             double x) {
  return point != points.end() && point->first <= x + same_point * x;
}

// Thread blocks of a launch without a list of tiles.
inline double blocks_of(std::int64_t rows, std::int64_t heads, int tile_rows) {
  return static_cast<double>(rows / tile_rows + (rows % tile_rows != 0)) * static_cast<double>(heads);
}

// Live pairs of the squares that tables are measured on.
inline double square_pairs(std::int64_t sequence, bool causal) {
  const auto s = static_cast<double>(sequence);
  return causal ? s * (s + 1) / 2 : s * s;
}

// The share of a segment's query rows that meet all of its keys, between 0 where no more than one does, as in
// a causal square, and 1 where all do.
inline double rows_that_meet_all(const Segment& s) {
  const std::int64_t first = s.right < 0 ? 0 : std::max<std::int64_t>(0, s.k_count - 1 - s.offset - s.right);
  const std::int64_t last = s.left < 0 ? s.q_count - 1 : std::min(s.q_count - 1, s.left - s.offset);
  if (first == 0 && last == s.q_count - 1) return 1;
  return static_cast<double>(std::max<std::int64_t>(0, last - first)) / static_cast<double>(s.q_count - 1);
}

// Rows of one side, which are cut into tiles, and what they walk over on the other side: `met` of `reach`
// rows, in the mean. unmasked: 1 where all are met; 0 where no more are than in a causal square, of which a
// row meets (reach + 1) / 2. Between the two it is as if so much of it were unmasked and the rest a causal
// square: that is what its blocks are, and a table of either mask is met at its own shape.
struct TableWalk {
  std::int64_t begin = 0, end = 0;              // the rows that are cut
  std::int64_t other_begin = 0, other_end = 0;  // the other side's, from first to last
  double met = 0, reach = 0, unmasked = 0;

  TableWalk() = default;
  TableWalk(const Segment& s, bool by_key)
      : begin(by_key ? s.k_begin : s.q_begin),
        end(begin + (by_key ? s.k_count : s.q_count)),
        other_begin(by_key ? s.q_begin : s.k_begin),
        other_end(other_begin + (by_key ? s.q_count : s.k_count)),
        met(live_pairs(s) / static_cast<double>(rows())),
        reach(static_cast<double>(other_end - other_begin)) {
    find_unmasked();
  }

  std::int64_t rows() const { return end - begin; }

  // As tables count that go by the mean of the rows of both sides (KernelTable::both_sides): at the rate of
  // that mean, and so as many times longer as more is walked over.
  TableWalk on_both_sides() const {
    TableWalk walk = *this;
    const auto own = static_cast<double>(rows()), other = static_cast<double>(other_end - other_begin);
    walk.met *= 2 * own / (own + other);
    walk.reach *= 2 * own / (own + other);
    walk.find_unmasked();
    return walk;
  }

  // What `causal` says of rows met by a causal square's rows, and `full` of rows that meet all, each with its
  // weight: into(value, weight).
  template <class Causal, class Full, class Into>
  void read(Causal causal, Full full, Into into) const {
    if (unmasked < 1) into(causal(unmasked > 0 ? (reach + 1) / 2 : met), 1 - unmasked);
    if (unmasked > 0) into(full(reach), unmasked);
  }

  // Some of the rows are the same, and walk over those of another segment as well.
  bool same_rows(const TableWalk& other) const { return other.begin < end; }
  void add(const TableWalk& other) { join(other, mean(reach, other, other.reach)); }
  // The next rows of one sequence, as its chunks are: they walk over the same ones of the other side, and
  // more or fewer.
  bool continues_in(const TableWalk& other) const {
    return other.begin == end && other.other_begin < other_end && other_begin < other.other_end;
  }
  void append(const TableWalk& other) { join(other, std::max(reach, other.reach)); }

 private:
  // Of all rows, of what some have of either.
  double mean(double own, const TableWalk& other, double of_other) const {
    return (own * static_cast<double>(rows()) + of_other * static_cast<double>(other.rows())) /
           static_cast<double>(std::max(end, other.end) - begin);
  }
  void join(const TableWalk& other, double both_reach) {
    met = mean(met, other, other.met);
    end = std::max(end, other.end);
    other_begin = std::min(other_begin, other.other_begin);
    other_end = std::max(other_end, other.other_end);
    reach = both_reach;
    find_unmasked();
  }
  void find_unmasked() {
    const double half = (reach + 1) / 2;
    if (met >= reach * (1 - same_point))
      unmasked = 1;
    else
      unmasked = met <= half * (1 + same_point) ? 0 : (met - half) / (reach - half);
  }
};

// What the tiles of a call walk over, sequence by sequence. Segments that see nothing are left out. by_key:
// tiles of keys.
inline std::vector<TableWalk> walks_of(std::span<const Segment> segments, bool by_key) {
  std::vector<TableWalk> all;
  for (const Segment& segment : segments)
    if (live_pairs(segment) > 0) all.emplace_back(segment, by_key);
  std::stable_sort(all.begin(), all.end(),
                   [](const TableWalk& a, const TableWalk& b) { return a.begin < b.begin; });
  const auto joined = [](const std::vector<TableWalk>& walks, auto belong, auto join) {
    std::vector<TableWalk> fewer;
    for (const TableWalk& walk : walks) {
      if (!fewer.empty() && (fewer.back().*belong)(walk))
        (fewer.back().*join)(walk);
      else
        fewer.push_back(walk);
    }
    return fewer;
  };
  return joined(joined(all, &TableWalk::same_rows, &TableWalk::add), &TableWalk::continues_in,
                &TableWalk::append);
}

}  // namespace cplab
