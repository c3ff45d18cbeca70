// Faults of scans over ranks, at every number of ranks: who is left with what, which ranks the checker names,
// how many rounds there are. What must come out is executed here on lists of indices, apart from algorithms/.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/faults/faults.hpp"
#include "check/check.hpp"
#include "tests/algorithms/scenarios.hpp"

namespace cplab {
namespace {

using testing::Shape;

// With as many tokens as ranks: token i is what rank i holds.
Plan plan_with(std::string_view fault, int P, bool backward = true) {
  Shape shape{.ranks = P, .lengths = {P}, .backward = backward, .algorithm = "lasp_blelloch"};
  shape.attention = Attention::linear;
  shape.head_size = shape.value_size = 1;
  Plan plan = build_plan(testing::scenario(shape));
  find_fault(fault)->mutate(plan);
  return plan;
}

// The ranks that the checker names for an output.
std::set<int> named(const CheckResult& result, const std::string& buffer) {
  std::set<int> ranks;
  for (const Finding& f : result.findings)
    if (f.kind == FindingKind::coverage && f.operation.empty() && f.buffer == buffer) ranks.insert(f.rank);
  return ranks;
}

// From scan indices to ranks: a suffix scan runs from the last rank to the first.
std::set<int> reversed(const std::set<int>& indices, int P) {
  std::set<int> ranks;
  for (const int i : indices) ranks.insert(P - 1 - i);
  return ranks;
}

using Chunks = std::set<int>;  // whose states a state is the sum of

std::set<int> not_exclusive(const std::vector<Chunks>& inclusive) {
  std::set<int> wrong;
  for (int i = 1; i < static_cast<int>(inclusive.size()); ++i) {
    Chunks all;
    for (int j = 0; j < i; ++j) all.insert(j);
    if (inclusive[static_cast<std::size_t>(i) - 1] != all) wrong.insert(i);
  }
  return wrong;
}

// The published scanner: every index keeps what it held after each level of the up-sweep in which it took
// part (entry 0: its own state), and asks for entry `level`, or the nearest lower one.
std::vector<Chunks> published(int P) {
  int levels = 0;
  while ((1 << levels) < P) ++levels;
  std::vector<std::map<int, Chunks>> kept(static_cast<std::size_t>(P));
  std::vector<Chunks> result(static_cast<std::size_t>(P));
  std::vector<bool> received(static_cast<std::size_t>(P));
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  const auto entry = [&](int i, int level) { return std::prev(kept[at(i)].upper_bound(level))->second; };
  for (int i = 0; i < P; ++i) kept[at(i)][0] = result[at(i)] = {i};
  for (int level = 0; level < levels; ++level) {
    const int s = 1 << level;
    for (int i = 2 * s - 1; i < P; i += 2 * s) {
      result[at(i)].merge(Chunks(result[at(i - s)]));
      kept[at(i)][level + 1] = result[at(i)];
      kept[at(i - s)][level + 1] = result[at(i - s)];
    }
  }
  for (int level = levels - 1; level >= 0; --level) {
    const int s = 1 << level;
    for (int i = s - 1; i + 1 < P; i += 2 * s) {
      Chunks sum = received[at(i)] ? result[at(i)] : entry(i, level);
      sum.merge(entry(i + 1, level));
      result[at(i + 1)] = sum;
      received[at(i + 1)] = true;
    }
  }
  return result;
}

// The up-sweep from the left edges; up and down with the right schedule otherwise.
std::vector<Chunks> from_left_edges(int P) {
  std::vector<Chunks> result(static_cast<std::size_t>(P));
  const auto take = [&](int from, int into) {
    result[static_cast<std::size_t>(into)].merge(Chunks(result[static_cast<std::size_t>(from)]));
  };
  for (int i = 0; i < P; ++i) result[static_cast<std::size_t>(i)] = {i};
  int s = 1;
  for (; s < P; s *= 2)
    for (int i = 2 * s - 1; i < P; i += 2 * s) take(i - 2 * s + 1, i);
  for (; s > 0; s /= 2)
    for (int i = 2 * s - 1; i + s < P; i += 2 * s) take(i, i + s);
  return result;
}

}  // namespace

TEST_CASE("published-down-sweep: the checker names every rank that is wrong, and no other") {
  CHECK(not_exclusive(published(7)).empty());
  CHECK(not_exclusive(published(8)) == std::set<int>{7});
  CHECK(not_exclusive(published(9)) == std::set<int>{7, 8});
  CHECK(published(8)[6] == Chunks{4, 5, 6});  // the upper half of what lies before index 7 is lost
  for (int P = 2; P <= 33; ++P) {
    CAPTURE(P);
    const std::set<int> wrong = not_exclusive(published(P));
    CHECK(wrong.empty() == (P < 8));
    const CheckResult forward = check(plan_with("published-down-sweep", P, false));
    CHECK(named(forward, "carry") == wrong);
    CHECK(named(forward, "out") == wrong);
    CHECK(forward.ok() == (P < 8));
    if (P > 24) continue;  // with the backward more findings than the checker lists
    const CheckResult both = check(plan_with("published-down-sweep", P));
    CHECK(named(both, "carry") == wrong);
    CHECK(named(both, "dcarry") == reversed(wrong, P));
    CHECK(named(both, "dkv") == reversed(wrong, P));
    for (const Finding& f : both.findings) CHECK(f.kind == FindingKind::coverage);
  }
}

// 14 + 7 messages at P = 8 and 30 + 15 at 16 as published (spec 1.6), without those to the last index, which
// nobody reads: log2 P in the up-sweep, one in the down-sweep.
TEST_CASE("published-down-sweep: as many messages as the source sends, but for those that nobody reads") {
  CHECK(check(plan_with("published-down-sweep", 8, false)).messages == 14 + 7 - 4);
  CHECK(check(plan_with("published-down-sweep", 16, false)).messages == 30 + 15 - 5);
}

TEST_CASE("left-edge-partner: whoever covers a gap is found, at once or through those who take it over") {
  for (int P = 4; P <= 33; ++P) {
    CAPTURE(P);
    const std::vector<Chunks> inclusive = from_left_edges(P);
    CHECK(not_exclusive(inclusive).empty() == (P == 4));  // there only the state behind all tokens is wrong
    const CheckResult result = check(plan_with("left-edge-partner", P, false));
    std::set<int> combining, expected;
    for (const Finding& f : result.findings) {
      CHECK(f.kind == FindingKind::coverage);
      combining.insert(f.rank);
    }
    // The first level whose subtrees have two edges: what is wrong above it follows from this.
    for (int i = 3; i < P; i += 4) expected.insert(i);
    CHECK(std::ranges::includes(combining, expected));
  }
  Plan right = plan_with("identity", 3);
  CHECK_THROWS_AS(find_fault("left-edge-partner")->mutate(right), ScenarioError);
}

// Rank i gets the suffix that begins at rank i - 1, its own tokens and its neighbour's in it; rank 0 nothing.
TEST_CASE("suffix-shift-left: all ranks but the last, and the forward is right") {
  for (int P = 2; P <= 17; ++P) {
    CAPTURE(P);
    const CheckResult result = check(plan_with("suffix-shift-left", P));
    std::set<int> all;
    for (int i = 0; i + 1 < P; ++i) all.insert(i);
    CHECK(named(result, "dcarry") == all);
    CHECK(named(result, "carry").empty());
    CHECK(named(result, "out").empty());
    CHECK(named(result, "dq").empty());
  }
}

TEST_CASE("inclusive-prefix: every rank that something enters counts its own tokens twice") {
  for (int P = 2; P <= 17; ++P) {
    CAPTURE(P);
    const CheckResult result = check(plan_with("inclusive-prefix", P));
    std::set<int> all;
    for (int i = 1; i < P; ++i) all.insert(i);
    CHECK(named(result, "carry") == all);
    CHECK(named(result, "dcarry") == reversed(all, P));
  }
}

// Every message of a blocking shift waits for the one before it; grouped, they are one round. The longest
// chain, with every message a meeting of its two ranks: 1 + 2 log2 P - 1 rounds of Brent and Kung's scan with
// the shift, but P + 2 with the chain, which begins at index 1 as soon as its prefix is there.
TEST_CASE("blocking-shift: results stay right, and rounds grow with P") {
  int log2 = 2;
  for (int P = 4; P <= 64; P *= 2, ++log2) {
    CAPTURE(P);
    const CheckResult right = check(plan_with("identity", P)),
                      blocking = check(plan_with("blocking-shift", P));
    CHECK(right.ok());
    CHECK(blocking.ok());
    CHECK(blocking.messages == right.messages);
    CHECK(check(plan_with("identity", P, false)).rounds == 2 * log2);
    CHECK(check(plan_with("blocking-shift", P, false)).rounds == P + 2);
    CHECK(right.rounds == 4 * log2);
    CHECK(blocking.rounds == 2 * (P + 2));
  }
}

}  // namespace cplab
