// Scans over an associative operator, for every number of elements; and what algorithms make of them: rounds
// and messages as counted by hand (spec, linear attention, table of schedules).
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/resolve.hpp"
#include "algorithms/linear/scan.hpp"
#include "check/check.hpp"
#include "tests/algorithms/logarithms.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab {
namespace {

using RoundsOfScan = std::vector<ScanRound> (*)(int);

// The operator of words: associative, not commutative, without an inverse.
std::vector<std::string> scanned_words(const std::vector<ScanRound>& rounds, int n) {
  std::vector<std::string> words;
  for (int i = 0; i < n; ++i) words.push_back(std::string(1, static_cast<char>('A' + i)));
  for (const ScanRound& round : rounds) {
    const std::vector<std::string> before = words;
    for (const ScanMove& move : round)
      words[static_cast<std::size_t>(move.into)] =
          before[static_cast<std::size_t>(move.from)] + words[static_cast<std::size_t>(move.into)];
  }
  return words;
}

std::size_t message_count(const std::vector<ScanRound>& rounds) {
  std::size_t sum = 0;
  for (const ScanRound& round : rounds) sum += round.size();
  return sum;
}

Scenario lasp(const std::string& algorithm, std::int64_t P) {
  Scenario s = testing::any_scenario(static_cast<int>(P), algorithm);
  s.problem = {};
  s.problem.attention = Attention::linear;
  s.problem.batch = 1;
  s.problem.sequence = 2 * P;
  s.problem.lengths = s.problem.padded_lengths = {2 * P};
  s.problem.heads = s.problem.kv_heads = 1;
  s.problem.head_size = s.problem.value_size = 4;
  s.problem.dtype = DType::fp32;
  s.problem.causal = true;
  s.problem.slopes = {0.5};
  s.problem.scale = 1;
  s.problem.direction = Direction::forward;
  s.parallel.groups.clear();
  s.placement = "contiguous";
  s.schedule = {};
  return resolve(s);
}

}  // namespace

TEST_CASE("every scan leaves all elements up to an index with it, for 1 to 26 of them") {
  for (const RoundsOfScan schedule : {brent_kung, kogge_stone, chain})
    for (int n = 1; n <= 26; ++n) {
      const std::vector<std::string> words = scanned_words(schedule(n), n);
      for (int i = 0; i < n; ++i) {
        const std::string& word = words[static_cast<std::size_t>(i)];
        REQUIRE(static_cast<int>(word.size()) == i + 1);
        for (int x = 0; x <= i; ++x) CHECK(word[static_cast<std::size_t>(x)] == 'A' + x);
      }
    }
}

TEST_CASE("rounds of scans follow their formulas, and spans refuse what does not follow") {
  for (int n = 2; n <= 200; ++n) {
    CHECK(static_cast<int>(brent_kung(n).size()) == testing::floor_log2(n) + testing::floor_log2(2 * n / 3));
    CHECK(static_cast<int>(kogge_stone(n).size()) == static_cast<int>(std::ceil(std::log2(n))));
    CHECK(message_count(chain(n)) == static_cast<std::size_t>(n - 1));
  }
  ScanSpans spans(4);
  spans.apply({{0, 1}, {2, 3}});
  CHECK(spans[3].first == 2);
  CHECK_THROWS(spans.apply({{0, 3}}));  // 0 ends before 1, and 3 begins at 2
}

// By hand for P = 6: up 0>1 2>3 4>5, 1>3; down 3>5, 1>2 3>4: 7 messages in 4 rounds; the shift adds 5 and 1.
// For P = 128: 13 + 1 rounds. The chain has P - 1 hops. Kogge-Stone over P - 1 elements after a shift: P - 1
// + sum over s = 1, 2, 4 .. < P - 1 of (P - 1 - s).
TEST_CASE("messages and rounds of LASP's scans are those of the table, for P up to 128") {
  struct Row {
    std::int64_t P, tree_messages, tree_rounds, shifted_messages, shifted_rounds;
  };
  for (const Row& row : {Row{2, 2, 2, 1, 1}, Row{3, 4, 3, 3, 2}, Row{4, 7, 4, 6, 3}, Row{6, 12, 5, 13, 4},
                         Row{7, 14, 5, 17, 4}, Row{8, 18, 6, 21, 4}, Row{16, 41, 8, 60, 5},
                         Row{32, 88, 10, 155, 6}, Row{64, 183, 12, 378, 7}, Row{128, 374, 14, 889, 8}}) {
    CAPTURE(row.P);
    const auto counted = [&](const char* algorithm) {
      CheckResult result = check(build_plan(lasp(algorithm, row.P)));
      CHECK(result.findings.empty());
      return result;
    };
    const CheckResult tree = counted("lasp_blelloch"), shifted = counted("lasp_kogge_stone"),
                      chained = counted("lasp_ring_decoupled"), gathered = counted("lasp_all_gather");
    CHECK(tree.messages == row.tree_messages);
    CHECK(tree.rounds == row.tree_rounds);
    CHECK(shifted.messages == row.shifted_messages);
    CHECK(shifted.rounds == row.shifted_rounds);
    CHECK(chained.messages == row.P - 1);
    CHECK(chained.rounds == row.P - 1);
    CHECK(gathered.messages == row.P * (row.P - 1));
    CHECK(gathered.rounds == 1);
  }
}

}  // namespace cplab
