// What measured tables of attention are read by: how much a segment's rows meet, and tables over that.
// Internal to sim/.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>

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

// A segment's rows of one side, which are cut into tiles, and what these walk over on the other side: `met`
// of `reach` rows, in the mean. unmasked: 1 where all are met; 0 where no more are than in a causal square,
// of which a row meets (reach + 1) / 2. Between the two a segment is as if so much of it were unmasked and
// the rest a causal square: that is what its blocks are, and a table of either mask is met at its own shape.
struct TableWalk {
  double met = 0, reach = 0, unmasked = 0;

  // Which rows are cut into tiles. both: tables that count the mean of the two (KernelTable::both_sides).
  enum class Rows : std::uint8_t { queries, keys, both };

  TableWalk(const Segment& segment, Rows rows) {
    const auto queries = static_cast<double>(segment.q_count), keys = static_cast<double>(segment.k_count);
    const double cut = rows == Rows::queries ? queries : rows == Rows::keys ? keys : (queries + keys) / 2;
    met = live_pairs(segment) / cut;
    reach = queries * keys / cut;
    const double half = (reach + 1) / 2;
    unmasked = met >= reach ? 1 : std::max(0.0, (met - half) / (reach - half));
  }

  // What `causal` says of rows met by a causal square's rows, and `full` of rows that meet all, each with its
  // weight: into(value, weight).
  template <class Causal, class Full, class Into>
  void read(Causal causal, Full full, Into into) const {
    if (unmasked < 1) into(causal(unmasked > 0 ? (reach + 1) / 2 : met), 1 - unmasked);
    if (unmasked > 0) into(full(reach), unmasked);
  }
};

}  // namespace cplab
