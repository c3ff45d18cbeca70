// Patterns of head strides: which options are accepted, and what pattern they make.
#include "algorithms/softmax/strides.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "tests/algorithms/scenarios.hpp"

using namespace cplab;

namespace {

bool accepted(std::int64_t G, std::int64_t h, std::int64_t f, std::int64_t first, std::int64_t last) {
  try {
    testing::scenario({.heads = 2 * G,
                       .kv_heads = G,
                       .options = {{"head_stride", h},
                                   {"forward_first_stride", f},
                                   {"backward_first_stride", first},
                                   {"backward_last_stride", last}},
                       .algorithm = "head_strided"});
    return true;
  } catch (const ScenarioError&) {
    return false;
  }
}

std::vector<std::int64_t> widths(const std::vector<HeadRange>& pattern) {
  std::vector<std::int64_t> list;
  for (const HeadRange part : pattern) list.push_back(part.count());
  return list;
}

}  // namespace

// An option that is given lies in 1 .. h - 1 (0: not given); each that cuts a stride of one pass needs a
// stride of its own.
TEST_CASE("S0-1: options of strides are accepted if and only if they are legal, for every G up to 8") {
  for (std::int64_t G = 1; G <= 8; ++G) {
    for (std::int64_t h = 1; h <= G + 1; ++h) {
      for (std::int64_t f = 0; f <= h; ++f) {
        for (std::int64_t first = 0; first <= h; ++first) {
          for (std::int64_t last = 0; last <= h; ++last) {
            const bool legal = G % h == 0 && f < h && first < h && last < h &&
                               G / h >= (first > 0 ? 1 : 0) + (last > 0 ? 1 : 0);
            CAPTURE(G);
            CAPTURE(h);
            CAPTURE(f);
            CAPTURE(first);
            CAPTURE(last);
            CHECK(accepted(G, h, f, first, last) == legal);
            if (!legal) continue;
            for (const auto& pattern : {stride_pattern(G, h, f, 0), stride_pattern(G, h, first, last)}) {
              std::int64_t at = 0;
              for (const HeadRange part : pattern) {
                CHECK(part.begin == at);
                CHECK(part.count() >= 1);
                CHECK(part.count() <= h);
                at = part.end;
              }
              CHECK(at == G);
            }
            // One more part for every stride that is cut.
            CHECK(std::ssize(stride_pattern(G, h, f, 0)) == G / h + (f > 0));
            CHECK(std::ssize(stride_pattern(G, h, first, last)) == G / h + (first > 0) + (last > 0));
          }
        }
      }
    }
  }
}

TEST_CASE("S0-1: patterns as in the source") {
  using Widths = std::vector<std::int64_t>;
  CHECK(widths(stride_pattern(8, 4, 0, 0)) == Widths{4, 4});
  CHECK(widths(stride_pattern(8, 4, 1, 0)) == Widths{1, 3, 4});
  CHECK(widths(stride_pattern(8, 4, 0, 1)) == Widths{4, 3, 1});
  CHECK(widths(stride_pattern(8, 4, 1, 3)) == Widths{1, 3, 1, 3});
  CHECK(widths(stride_pattern(12, 4, 3, 1)) == Widths{3, 1, 4, 3, 1});
  CHECK(widths(stride_pattern(4, 4, 0, 1)) == Widths{3, 1});
  CHECK(widths(stride_pattern(3, 1, 0, 0)) == Widths{1, 1, 1});
}
