// Segments of sequences one behind the other, the same rows in q and k.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/kernels.hpp"

namespace cplab::testing {

inline kernels::Segment sequence(std::int64_t begin, std::int64_t count, bool causal) {
  return {.q_begin = begin, .q_count = count, .k_begin = begin, .k_count = count, .right = causal ? 0 : -1};
}

inline std::vector<kernels::Segment> sequences(std::span<const std::int64_t> lengths, bool causal) {
  std::vector<kernels::Segment> segments;
  std::int64_t row = 0;
  for (const std::int64_t length : lengths) {
    segments.push_back(sequence(row, length, causal));
    row += length;
  }
  return segments;
}

}  // namespace cplab::testing
