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

// Rows of one side, which are cut into tiles, and what they walk over on the other side: `met` of `reach`
// rows, in the mean. unmasked: 1 where all are met; 0 where no more are than in a causal square, of which a
// row meets (reach + 1) / 2. Between the two it is as if so much of it were unmasked and the rest a causal
// square: that is what its blocks are, and a table of either mask is met at its own shape.
struct TableWalk {
  std::int64_t begin = 0, rows = 0;
  double met = 0, reach = 0, unmasked = 0;

  // Which rows are cut into tiles. both: those of keys, by tables that count the mean of both sides
  // (KernelTable::both_sides).
  enum class Rows : std::uint8_t { queries, keys, both };

  TableWalk() = default;
  TableWalk(const Segment& segment, Rows cut)
      : begin(cut == Rows::queries ? segment.q_begin : segment.k_begin),
        rows(cut == Rows::queries ? segment.q_count : segment.k_count) {
    const auto queries = static_cast<double>(segment.q_count), keys = static_cast<double>(segment.k_count);
    const double counted = cut == Rows::both ? (queries + keys) / 2 : static_cast<double>(rows);
    met = live_pairs(segment) / counted;
    reach = queries * keys / counted;
    find_unmasked();
  }

  // What `causal` says of rows met by a causal square's rows, and `full` of rows that meet all, each with its
  // weight: into(value, weight).
  template <class Causal, class Full, class Into>
  void read(Causal causal, Full full, Into into) const {
    if (unmasked < 1) into(causal(unmasked > 0 ? (reach + 1) / 2 : met), 1 - unmasked);
    if (unmasked > 0) into(full(reach), unmasked);
  }

  // The same rows, or some of them, walk over those of another segment as well.
  void join(const TableWalk& other) {
    const std::int64_t end = std::max(begin + rows, other.begin + other.rows);
    const auto mean = [&](double a, double b) {
      return (a * static_cast<double>(rows) + b * static_cast<double>(other.rows)) /
             static_cast<double>(end - begin);
    };
    met = mean(met, other.met);
    reach = mean(reach, other.reach);
    rows = end - begin;
    find_unmasked();
  }

 private:
  void find_unmasked() {
    const double half = (reach + 1) / 2;
    unmasked = met >= reach * (1 - same_point) ? 1 : std::max(0.0, (met - half) / (reach - half));
  }
};

// What the tiles of a call walk over: one for rows that no segment shares with others, one for all that
// segments share. Those that see nothing are left out.
inline std::vector<TableWalk> walks_of(std::span<const Segment> segments, TableWalk::Rows cut) {
  std::vector<TableWalk> all, joined;
  for (const Segment& segment : segments)
    if (live_pairs(segment) > 0) all.emplace_back(segment, cut);
  std::stable_sort(all.begin(), all.end(),
                   [](const TableWalk& a, const TableWalk& b) { return a.begin < b.begin; });
  for (const TableWalk& walk : all) {
    if (!joined.empty() && walk.begin < joined.back().begin + joined.back().rows)
      joined.back().join(walk);
    else
      joined.push_back(walk);
  }
  return joined;
}

}  // namespace cplab
