// The checker on linear attention in chunks: right plans of packed sequences in both placements, with every
// transition, and the work it counts.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "plan/chunk_flops.hpp"
#include "tests/algorithms/linear_changes.hpp"

using namespace cplab;
using namespace cplab::hand;

TEST_CASE("check: linear attention in chunks, packed, contiguous or as a stream") {
  const std::vector<std::vector<std::int64_t>> lists{{12}, {1}, {7, 5}, {3, 1, 9}, {0, 6}, {5, 0, 0, 2, 8},
                                                     {40}};
  for (const int P : {1, 2, 3, 4, 7, 16})
    for (const auto& lengths : lists)
      for (const char* placement : {"contiguous", "stream"})
        for (const std::int64_t rows : {1, 3, 100})
          for (const Direction direction : {Direction::forward, both}) {
            INFO("P = " << P << " " << std::string(placement) << " " << lengths.size()
                        << " sequences, chunks of " << rows);
            require_right(chunked(P, lengths, direction, placement, rows));
          }
}

TEST_CASE("check: padded sequences of a stream") {
  for (const int P : {1, 2, 3, 5}) {
    Plan plan = chunked(P, {9, 4}, both, "stream", 4);
    require_right(plan);
    // A length that is shorter than its padding: the chunk of its last token has padding rows now.
    plan.scenario.problem.lengths[1] = 3;
    const CheckResult result = check(plan);
    INFO(text(result));
    CHECK(std::ranges::any_of(result.findings, [](const Finding& f) {
      return f.message.find("padding rows") != std::string::npos;
    }));
  }
}

TEST_CASE("check: transitions that are no decay by a slope") {
  for (const Transition transition : {Transition::column, Transition::matrix})
    for (const int P : {1, 2, 3, 4, 9}) require_right(affine(P, 3 * P + (P > 2 ? -4 : 0), transition));
}

TEST_CASE("check: the work of chunks is counted as plan/chunk_flops.hpp says") {
  const auto compare = [](const Plan& plan) {
    const CheckResult result = check(plan);
    for (const RankPlan& rank : plan.ranks) {
      double sum = 0;
      for (const Operation& op : rank.operations)
        if (is_linear(op.kind)) sum += chunk_flops(rank, op);
      CHECK(result.flops[static_cast<std::size_t>(rank.rank)] == doctest::Approx(sum));
      CHECK(sum > 0);
    }
  };
  for (const std::int64_t rows : {64, 100, 1000}) compare(chunked(2, {500, 130}, both, "contiguous", rows));
  for (const Transition transition : {Transition::column, Transition::matrix})
    compare(affine(3, 300, transition));
}

TEST_CASE("check: long chunks cost no time per token") {
  const std::int64_t tokens = std::int64_t{1} << 20;
  require_right(chunked(8, {8 * tokens}, both, "contiguous", tokens));
}
