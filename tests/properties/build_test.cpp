// How plans are built: scenarios resolve to themselves, one rank alone is the same as in the whole plan, and
// edges are those that the views ask for, none of them twice.
#include "algorithms/core/build.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "algorithms/core/resolve.hpp"
#include "derive/edges.hpp"
#include "tests/scenarios/same_plan.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

// Whether `to` waits for `from` through edges and the order of lanes.
bool is_ancestor(const RankPlan& rank, std::uint32_t from, std::uint32_t to) {
  std::vector<std::uint32_t> open{to};
  std::set<std::uint32_t> seen;
  while (!open.empty()) {
    const std::uint32_t i = open.back();
    open.pop_back();
    if (i == from) return true;
    if (i < from || !seen.insert(i).second) continue;
    for (const std::uint32_t before : rank.after(rank.operations[i])) open.push_back(before);
    for (std::uint32_t j = i; j-- > 0;) {
      if (rank.operations[j].lane == rank.operations[i].lane) {
        open.push_back(j);
        break;
      }
    }
  }
  return false;
}

}  // namespace

TEST_CASE("a resolved scenario resolves to itself, and is built alike every time") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Scenario again = resolve(scenario);
    CHECK(again.schedule.options == scenario.schedule.options);
    CHECK(testing::difference(build_plan(scenario), build_plan(again)) == "");
  }
}

TEST_CASE("a rank built alone is that of the whole plan") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    REQUIRE(plan.ranks.size() == static_cast<std::size_t>(scenario.parallel.world()));
    for (const RankPlan& rank : plan.ranks)
      CHECK(testing::difference(build_rank(scenario, rank.rank), rank) == "");
  }
}

TEST_CASE("edges are a transitive reduction: none is implied by the others") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    for (RankPlan& rank : build_plan(scenario).ranks) {
      for (std::uint32_t to = 0; to < rank.operations.size(); ++to) {
        Operation& op = rank.operations[to];
        const Span after = op.after;
        for (std::uint32_t e = 0; e < after.count; ++e) {
          // Without this one edge (moved to the front and cut off) there is no other path.
          std::swap(rank.edges[after.first], rank.edges[after.first + e]);
          op.after = {after.first + 1, after.count - 1};
          CHECK_FALSE(is_ancestor(rank, rank.edges[after.first], to));
          op.after = after;
        }
      }
    }
  }
}

TEST_CASE("memory that time shares makes nobody wait: the edges are those of the data") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    for (const RankPlan& rank : build_plan(scenario).ranks) {
      RankPlan again = rank, data = rank;
      derive_edges(again);
      derive_data_edges(data);
      for (std::size_t i = 0; i < rank.operations.size(); ++i) {
        const auto built = rank.after(rank.operations[i]), derived = again.after(again.operations[i]),
                   needed = data.after(data.operations[i]);
        CHECK(std::ranges::equal(built, derived));
        if (scenario.schedule.is_word("reuse", "time")) CHECK(std::ranges::equal(built, needed));
      }
    }
  }
}
