// Where buckets of distances begin, and what a problem may ask of sinks, softcaps and biases.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem.hpp"

namespace cplab {
namespace {

Problem problem_with(std::int64_t buckets, std::int64_t max_distance, bool causal) {
  Problem p;
  p.batch = 1, p.sequence = 8, p.lengths = p.padded_lengths = {8};
  p.heads = 4, p.kv_heads = 2, p.head_size = p.value_size = 8;
  p.causal = causal;
  p.bias = BiasForm::buckets, p.buckets = buckets, p.max_distance = max_distance;
  return p;
}

// T5's formula, distance by distance: the first of each bucket.
std::vector<std::int64_t> by_formula(std::int64_t count, std::int64_t max_distance) {
  const std::int64_t exact = count / 2;
  std::vector<std::int64_t> starts;
  const auto bucket = [&](std::int64_t n) {
    if (n < exact) return n;
    const double share = std::log(static_cast<double>(n) / static_cast<double>(exact)) /
                         std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
    return std::min(count - 1,
                    exact + static_cast<std::int64_t>(share * static_cast<double>(count - exact) + 1e-9));
  };
  for (std::int64_t b = 1; b < count; ++b) {
    std::int64_t n = 0;
    while (bucket(n) < b) ++n;
    starts.push_back(n);
  }
  return starts;
}

TEST_CASE("buckets begin where T5's formula reaches them") {
  CHECK(bucket_starts(problem_with(32, 128, true)) ==
        std::vector<std::int64_t>{1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
                                  19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113});
  for (const std::int64_t count : {2, 8, 16, 32, 64, 320})
    for (const std::int64_t far : {33, 128, 1000})
      if (far > count / 2) {
        CHECK(bucket_starts(problem_with(count, far, true)) == by_formula(count, far));
        CHECK(bucket_starts(problem_with(2 * count, far, false)) == by_formula(count, far));
      }
}

TEST_CASE("what sinks, softcaps and biases cannot be is refused with its key") {
  const auto key_of = [](const Problem& p) {
    try {
      require_sizes(p, {});
    } catch (const ScenarioError& error) {
      return error.key;
    }
    return std::string();
  };
  CHECK(key_of(problem_with(32, 128, true)).empty());
  CHECK(key_of(problem_with(32, 128, false)).empty());
  CHECK(key_of(problem_with(6, 128, false)) == "problem.buckets");
  CHECK(key_of(problem_with(7, 128, true)) == "problem.buckets");
  CHECK(key_of(problem_with(32, 16, true)) == "problem.max_distance");
  Problem p = problem_with(0, 0, true);
  p.bias = BiasForm::none;
  CHECK(key_of(p).empty());
  p.sink = true, p.softcap = 30;
  CHECK(key_of(p).empty());
  p.max_logit = true;
  CHECK(key_of(p) == "problem.max_logit");
  p.max_logit = false, p.attention = Attention::dynamic_mask;
  CHECK(key_of(p) == "problem.sink");
  p.sink = false, p.bias = BiasForm::alibi, p.slopes = {1, 1, 1, 1};
  CHECK(key_of(p) == "problem.bias");
  p.attention = Attention::softmax;
  CHECK(key_of(p).empty());
  p.slopes = {1, 1};
  CHECK(key_of(p) == "problem.slopes");
  p.bias = BiasForm::none;
  CHECK(key_of(p) == "problem.slopes");
}

}  // namespace
}  // namespace cplab
