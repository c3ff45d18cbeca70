// How many pairs of queries and keys a mask allows, counted from the scenario's words: mask, window, chunk,
// prefix, groups, rectangles. Nothing is cut into regions that share no pair; what several of them allow is
// counted once by inclusion and exclusion.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/problem.hpp"

namespace cplab::checking {

inline constexpr std::int64_t far = std::int64_t{1} << 42;  // beyond every position and their differences

inline std::int64_t floor_of(std::int64_t a, std::int64_t b) {
  return a / b - (a % b < 0 ? 1 : 0);
}

// Tokens of one sequence at positions position + stride * i, 0 <= i < count; of queries among the keys.
struct Line {
  std::int64_t position = 0, stride = 1, count = 0;
};

class LiveMask {
 public:
  explicit LiveMask(const Problem&);

  // It is a window alone, the same in every sequence.
  bool is_window() const { return is_window_; }
  Window window() const { return window_; }
  // Pairs (i, j) of two lines of equal strides with low <= j - i <= high that are allowed.
  std::int64_t count(std::uint32_t sequence, const Line& q, const Line& k, std::int64_t low,
                     std::int64_t high) const;

 private:
  // Queries and keys at positions [begin, end), low <= k - q <= high.
  struct Block {
    std::int64_t q_begin, q_end, k_begin, k_end, low, high;
    Block common(const Block&) const;
  };
  struct Sequence {
    std::vector<Block> added;         // groups and rectangles, which share no pair, ascending by q_begin
    std::vector<std::int64_t> q_end;  // the largest q_end up to that block
  };
  static std::int64_t count_in(const Block&, const Line& q, const Line& k, std::int64_t low,
                               std::int64_t high);
  // The blocks that mask, window and chunks allow for those tokens; they share no pair.
  std::vector<Block> allowed(const Line& q, const Line& k) const;
  void add(const Problem&, const MaskRectangle&);

  bool is_window_ = true, nothing_ = false;
  Window window_;
  std::int64_t chunk_ = 0, prefix_ = 0;
  std::vector<Sequence> sequences_;
};

}  // namespace cplab::checking
