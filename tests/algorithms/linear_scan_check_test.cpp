// The checker on scans of states over ranks, written as rounds of moves: which schedules are right, for every
// P, which messages and rounds they take, and that those that were published wrong are rejected at the ranks
// that they leave wrong. The counts are those of spec/linear-attention.md 1.5.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/logarithms.hpp"
#include "tests/hand_plans/linear_plans.hpp"

using namespace cplab;
using namespace cplab::hand;
using testing::ceil_log2;
using testing::floor_log2;

namespace {

// Lengths that give the ranks pieces of different lengths, and the last ones none where P is large.
std::int64_t token_count(int P) {
  return P < 3 ? 5 : 3 * P - 4;
}

CheckResult require_scan(int P, Direction direction, const ScanRanks& scan) {
  const CheckResult result = check(scanned(P, token_count(P), direction, scan));
  INFO("P = " << P << "\n" << text(result));
  CHECK(result.ok());
  return result;
}

std::set<int> ranks_with(const CheckResult& result, const std::string& buffer) {
  std::set<int> ranks;
  for (const Finding& f : result.findings)
    if (f.buffer == buffer && f.kind == FindingKind::coverage) ranks.insert(f.rank);
  return ranks;
}

// Which ranks get something else than all tokens before them: the published schedule on sets of ranks.
std::set<int> wrong_in_published(int P) {
  std::vector<std::vector<std::set<int>>> kept(static_cast<std::size_t>(P));
  const auto at = [&](int i) -> auto& {
    return kept[static_cast<std::size_t>(i)];
  };
  for (int i = 0; i < P; ++i) at(i) = {{i}};
  const int L = ceil_log2(P);
  const auto entry = [&](int i, int level) {
    return at(i)[std::min(at(i).size() - 1, static_cast<std::size_t>(level))];
  };
  for (int l = 0; l < L; ++l) {
    for (int d = 1 << l, i = 2 * d - 1; i < P; i += 2 * d) {
      std::set<int> sum = entry(i - d, l);
      sum.merge(entry(i, l));
      at(i).push_back(sum);
    }
  }
  std::vector<std::set<int>> result(static_cast<std::size_t>(P));
  for (int l = L; l-- > 0;) {
    for (int d = 1 << l, i = d - 1; i + 1 < P; i += 2 * d) {
      const std::set<int>& mine = result[static_cast<std::size_t>(i)];
      std::set<int> sum = mine.empty() ? entry(i, l) : mine;
      sum.merge(entry(i + 1, l));
      result[static_cast<std::size_t>(i) + 1] = sum;
    }
  }
  std::set<int> wrong, all;
  for (int i = 1; i < P; ++i) {
    all.insert(i - 1);
    const std::set<int>& sent = result[static_cast<std::size_t>(i) - 1];
    if ((sent.empty() ? at(i - 1).back() : sent) != all) wrong.insert(i);
  }
  return wrong;
}

}  // namespace

TEST_CASE("check: Brent-Kung and a shift, for every P") {
  for (int P = 1; P <= 128; ++P) {
    const CheckResult result = require_scan(P, Direction::forward, brent_kung_and_shift());
    if (P < 2) continue;
    CHECK(result.rounds == floor_log2(P) + floor_log2(2 * P / 3) + 1);
  }
  const std::vector<std::pair<int, int>> table{{2, 2},  {3, 4},   {4, 7},   {6, 12},   {7, 14},
                                               {8, 18}, {16, 41}, {32, 88}, {64, 183}, {128, 374}};
  for (const auto& [P, messages] : table)
    CHECK(require_scan(P, Direction::forward, brent_kung_and_shift()).messages == messages);
  CHECK(require_scan(128, Direction::forward, brent_kung_and_shift()).rounds == 14);
}

TEST_CASE("check: Kogge-Stone after the shift, for every P") {
  for (int P = 1; P <= 128; ++P) {
    const CheckResult result = require_scan(P, Direction::forward, kogge_stone_after_shift());
    if (P > 1) CHECK(result.rounds == ceil_log2(P - 1) + 1);
  }
  const std::vector<std::pair<int, int>> table{{2, 1},  {3, 3},   {4, 6},    {6, 13},   {7, 17},
                                               {8, 21}, {16, 60}, {32, 155}, {64, 378}, {128, 889}};
  for (const auto& [P, messages] : table)
    CHECK(require_scan(P, Direction::forward, kogge_stone_after_shift()).messages == messages);
}

TEST_CASE("check: the exclusive scan that swaps, for every P") {
  for (int P = 1; P <= 128; ++P) {
    const CheckResult result = require_scan(P, Direction::forward, swap_form());
    CHECK(result.messages == 3 * (P - 1));
    CHECK(result.rounds == 2 * ceil_log2(P));
  }
}

TEST_CASE("check: chain, gathered states and pipelined slices, for every P") {
  for (int P = 1; P <= 128; ++P) {
    const CheckResult ring = require_scan(P, Direction::forward, ring_of_states());
    CHECK(ring.messages == P - 1);
    CHECK(ring.rounds == P - 1);
    for (const int slices : {2, 4}) {
      const CheckResult sliced = require_scan(P, Direction::forward, pipelined_slices(slices));
      CHECK(sliced.messages == (P - 1) * slices);
      CHECK(sliced.rounds == (P == 1 ? 0 : P - 2 + slices));
    }
  }
  for (const int P : {1, 2, 3, 4, 6, 7, 8, 16, 32, 64, 128}) {
    const CheckResult gathered = require_scan(P, Direction::forward, gather_and_fold());
    CHECK(gathered.messages == P * (P - 1));
    CHECK(gathered.rounds == 1);
  }
}

TEST_CASE("check: suffix scans, for P to 33 and 128") {
  std::vector<int> list{128};
  for (int P = 1; P <= 33; ++P) list.push_back(P);
  for (const int P : list)
    for (const ScanRanks& scan : {brent_kung_and_shift(), kogge_stone_after_shift(), swap_form(),
                                  ring_of_states(), pipelined_slices(2)})
      require_scan(P, Direction::forward_backward, scan);
  for (const int P : {2, 5, 8, 33}) require_scan(P, Direction::forward_backward, gather_and_fold());
}

TEST_CASE("check: the published down-sweep is wrong from P = 8 on, at these ranks") {
  CHECK(wrong_in_published(8) == std::set<int>{7});
  for (int P = 2; P <= 64; ++P) {
    const std::set<int> expected = wrong_in_published(P);
    CHECK(expected.empty() == (P < 8));
    const CheckResult result =
        check(scanned(P, 3 * P, Direction::forward_backward, published_down_sweep()), 100000);
    INFO("P = " << P << "\n" << text(result));
    CHECK(ranks_with(result, "carry") == expected);
    CHECK(ranks_with(result, "out") == expected);
    std::set<int> mirrored;
    for (const int rank : expected) mirrored.insert(P - 1 - rank);
    CHECK(ranks_with(result, "dcarry") == mirrored);
    CHECK(ranks_with(result, "dkv") == mirrored);
  }
}

TEST_CASE("check: the left edge of the left subtree is no partner") {
  for (int P = 2; P <= 40; ++P) {
    const CheckResult result = check(scanned(P, 3 * P, Direction::forward, left_edge_partner()));
    INFO("P = " << P << "\n" << text(result));
    CHECK(result.ok() == (P < 4));
    if (P < 4) continue;
    // Of four ranks of 3 tokens, rank 3 adds rank 0's tokens, at edge 3, to those of ranks 2 and 3, at 12.
    const auto at = std::ranges::find(result.findings, 3, &Finding::rank);
    REQUIRE(at != result.findings.end());
    CHECK(at->kind == FindingKind::coverage);
    CHECK(at->operation == "3/forward/4");
    CHECK(at->message.find("exponent 9 would be right") != std::string::npos);
  }
}

TEST_CASE("check: a shift the wrong way") {
  for (int P = 2; P <= 40; ++P) {
    const CheckResult result =
        check(scanned(P, 3 * P, Direction::forward_backward, shifted_the_wrong_way()), 100000);
    INFO("P = " << P << "\n" << text(result));
    CHECK_FALSE(result.ok());
    std::set<int> wrong;
    for (const Finding& f : result.findings)
      if (f.kind == FindingKind::coverage || f.kind == FindingKind::uninitialised) wrong.insert(f.rank);
    CHECK(std::ssize(wrong) == P);
  }
}
