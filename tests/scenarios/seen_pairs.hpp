// What a mask means, pair by pair.
#pragma once

#include <cstddef>
#include <cstdint>

#include "plan/problem.hpp"

namespace cplab::testing {

// Does query i of sequence b see key j? From the words of Problem alone.
inline bool sees(const Problem& p, std::size_t b, std::int64_t i, std::int64_t j) {
  const std::int64_t position = i + p.first_query_at(b);
  bool base = !p.only_rectangles && (!p.causal || j <= position);
  if (p.window.left >= 0) base = base && j >= position - p.window.left;
  if (p.window.right >= 0) base = base && j <= position + p.window.right;
  if (p.chunk > 0) base = base && position >= 0 && position / p.chunk == j / p.chunk;
  if (base || j < p.prefix) return true;
  std::int64_t q = i, k = j;  // as groups and rectangles count
  for (std::size_t before = 0; before < b && p.packed; ++before) {
    q += p.padded_lengths[before];
    k += p.padded_lengths_of(Side::keys)[before];
  }
  for (const auto& [begin, end] : p.groups)
    if (q >= begin && q < end && k >= begin && k < end) return true;
  for (const MaskRectangle& r : p.rectangles) {
    if (q < r.q_begin || q >= r.q_end || k < r.k_begin || k >= r.k_end) continue;
    if (r.form == MaskRectangle::Form::full) return true;
    if (r.form == MaskRectangle::Form::causal && r.k_end - k >= r.q_end - q) return true;
    if (r.form == MaskRectangle::Form::inverse_causal && k - r.k_begin >= q - r.q_begin) return true;
  }
  return false;
}

}  // namespace cplab::testing
