// Visible pairs of a segment in closed form, and the work of one.
#include "plan/live_pairs.hpp"

#include <algorithm>
#include <limits>

namespace cplab {

namespace {

constexpr std::int64_t unlimited = std::numeric_limits<std::int64_t>::max() / 4;

}  // namespace

double live_pairs(const Segment& s) {
  // Pairs with j - i <= h: sum over i of clamp(i + h + 1, 0, k_count).
  const auto below = [&](std::int64_t h) {
    const std::int64_t first = std::clamp<std::int64_t>(-h, 0, s.q_count);  // first row with any
    const std::int64_t full =
        std::clamp<std::int64_t>(s.k_count - 1 - h, first, s.q_count);  // first with all
    const auto n = static_cast<double>(full - first);
    return n * (static_cast<double>(first + h + 1) + static_cast<double>(full + h)) / 2 +
           static_cast<double>(s.q_count - full) * static_cast<double>(s.k_count);
  };
  const std::int64_t hi = s.right < 0 ? unlimited : s.offset + s.right;
  const std::int64_t lo = s.left < 0 ? -unlimited : s.offset - s.left;
  return std::max(0.0, below(std::min(hi, s.k_count)) - below(std::max(lo - 1, -s.q_count - 1)));
}

Segment live_part(const Segment& s) {
  std::int64_t first = 0, last = s.q_count - 1, first_key = 0, last_key = s.k_count - 1;
  if (s.right >= 0) {
    first = std::max(first, -s.offset - s.right);
    last_key = std::min(last_key, s.q_count - 1 + s.offset + s.right);
  }
  if (s.left >= 0) {
    last = std::min(last, s.k_count - 1 - s.offset + s.left);
    first_key = std::max(first_key, s.offset - s.left);
  }
  Segment part = s;
  part.q_begin += first;
  part.q_count = std::max<std::int64_t>(0, last - first + 1);
  part.k_begin += first_key;
  part.k_count = std::max<std::int64_t>(0, last_key - first_key + 1);
  part.offset += first - first_key;
  return part;
}

double flops_per_pair(OpKind kind, std::int64_t head_size, std::int64_t value_size) {
  const auto D = static_cast<double>(head_size), E = static_cast<double>(value_size);
  if (kind == OpKind::attend) return 2 * (D + E);
  return kind == OpKind::attend_backward ? 2 * (3 * D + 2 * E) : 0;
}

}  // namespace cplab
