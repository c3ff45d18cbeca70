// Which keys a query sees, as regions of pairs that share no pair: what mask, window, chunks, prefix, groups
// and rectangles of a problem allow together.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {

// Pairs of a query at position q in [q_begin, q_end) and a key at position k in [k_begin, k_end) with low <=
// k - q <= high. Positions are among the keys (Problem::first_query_at).
struct VisibleRegion {
  static constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 8;
  std::int64_t q_begin = -unlimited, q_end = unlimited;
  std::int64_t k_begin = -unlimited, k_end = unlimited;
  std::int64_t low = -unlimited, high = unlimited;
  bool operator==(const VisibleRegion&) const = default;
};

class Visible {
 public:
  Visible(Window);  // NOLINT(google-explicit-constructor): the same window in every sequence
  explicit Visible(const Problem&);

  std::span<const VisibleRegion> of(std::int64_t sequence) const;
  // One region: a window and nothing else.
  bool is_window() const { return by_sequence_ == nullptr; }

 private:
  VisibleRegion window_;
  // By sequence, or one list for all.
  std::shared_ptr<const std::vector<std::vector<VisibleRegion>>> by_sequence_;
};

// The union of regions, in regions whose bounding boxes share no pair that is in any of them: within the box
// of one the others have nothing. Ascending by their first queries.
std::vector<VisibleRegion> apart(const std::vector<VisibleRegion>&);

// Pairs of a region of bounded queries and keys.
double region_pairs(const VisibleRegion&);

// Pairs of a sequence that are seen; of its queries [q_begin, q_end) and keys [k_begin, k_end).
double visible_pairs(const Problem&, std::size_t sequence);
double visible_pairs(const Problem&, const Visible&, std::size_t sequence, std::int64_t q_begin,
                     std::int64_t q_end, std::int64_t k_begin, std::int64_t k_end);

}  // namespace cplab
