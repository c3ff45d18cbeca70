// Edges of drawn plans against their definition: operations that use the same elements, one of them to write,
// are ordered, and no edge is there that the others imply.
#include "derive/edges.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <set>
#include <tuple>
#include <vector>

#include "tests/hand_plans/hand_plans.hpp"

using namespace cplab;

namespace {

using Element = std::tuple<std::uint32_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

struct Used {
  std::set<Element> all, written;
};

void add_elements(const RankPlan& rank, const View& view, bool writes, Used& used) {
  for (std::int64_t slot = view.slot_begin; slot < view.slot_end; ++slot)
    for (std::int64_t head = view.head_begin; head < view.head_end; ++head)
      for (std::int64_t column = view.width_begin; column < view.width_end; ++column)
        for (const RowRange& range : rank.rows_of(view))
          for (std::int64_t i = 0; i < range.count; ++i) {
            const Element element{view.buffer, slot, head, column, range.begin + i * range.step};
            used.all.insert(element);
            if (writes) used.written.insert(element);
          }
}

bool meet(const std::set<Element>& a, const std::set<Element>& b) {
  return std::ranges::any_of(a, [&](const Element& element) { return b.contains(element); });
}

// Draws buffers, lanes and operations: some with few views, some with as many parts as a collective has.
class Drawn {
 public:
  explicit Drawn(unsigned seed) : random_(seed), plan(hand::ranks_in_one_group(1)) {
    hand::Rank rank(plan, 0);
    for (int b = 0; b < 2; ++b)
      rank.buffer("b" + std::to_string(b), Role::nominal, Category::input, 2, rows, 3, 2);
    for (int n = 12 + below(20); n > 0; --n) {
      const Lane lane{below(3) == 0 ? LaneKind::comm : LaneKind::compute,
                      static_cast<std::uint8_t>(below(2))};
      below(2) == 0 ? communicate(rank, lane) : compute(rank, lane);
    }
  }

 private:
  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Boxes that are often equal, often whole, and sometimes of rows in any order.
  std::uint32_t view(hand::Rank& rank) {
    hand::At at{static_cast<std::uint32_t>(below(2)), below(2)};
    if (below(2) == 0) at.head_begin = below(3), at.head_end = at.head_begin + 1;
    if (below(4) == 0) at.width_begin = below(2), at.width_end = at.width_begin + 1;
    if (below(5) == 0) return rank.view(at, {{1 + below(3), 2, 4}, {0, 1, 1}});
    if (below(2) == 0) at.row = 2 * below(rows / 2), at.rows = 2;
    return rank.view(at);
  }
  void compute(hand::Rank& rank, Lane lane) {
    std::vector<Access> reads, writes;
    for (int n = below(3); n > 0; --n) reads.push_back({view(rank), WriteMode::store});
    for (int n = below(2); n >= 0; --n) writes.push_back({view(rank), WriteMode::store});
    rank.operation(lane, OpKind::copy, reads, writes);
  }
  void communicate(hand::Rank& rank, Lane lane) {
    std::vector<Part> parts;
    const hand::At whole{static_cast<std::uint32_t>(below(2)), below(2)};
    for (int row = 0; row < rows; row += 2) {
      hand::At part = whole;
      part.row = row, part.rows = 2;
      parts.push_back(below(4) == 0 ? hand::send(view(rank), 0) : hand::receive(rank.view(part), 0));
    }
    rank.communicate(lane, OpKind::exchange, parts);
  }

  static constexpr int rows = 12;
  std::mt19937 random_;

 public:
  Plan plan;
};

}  // namespace

TEST_CASE("edges: of drawn plans they order all that conflicts, and none of them is implied") {
  int edges = 0;
  for (unsigned seed = 0; seed < 120; ++seed) {
    CAPTURE(seed);
    Drawn drawn(seed);
    RankPlan& rank = drawn.plan.ranks[0];
    (void)derive_data_edges(rank);
    const std::size_t n = rank.operations.size();
    std::vector<Used> used(n);
    for (std::size_t i = 0; i < n; ++i) {
      const Operation& op = rank.operations[i];
      for (const Access& a : rank.reads(op)) add_elements(rank, rank.views[a.view], false, used[i]);
      for (const Access& a : rank.writes(op)) add_elements(rank, rank.views[a.view], true, used[i]);
      for (const Part& p : rank.parts_of(op)) add_elements(rank, rank.views[p.view], !p.send, used[i]);
    }
    // before[i][j]: j is complete when i starts, by lanes and edges.
    std::vector<std::vector<char>> before(n, std::vector<char>(n));
    const auto follow = [&](std::size_t i, std::size_t j) {
      before[i][j] = 1;
      for (std::size_t k = 0; k < n; ++k) before[i][k] = before[i][k] || before[j][k];
    };
    for (std::size_t i = 0; i < n; ++i) {
      const auto after = rank.after(rank.operations[i]);
      std::vector<std::size_t> direct(after.begin(), after.end());
      for (std::size_t j = i; j-- > 0;) {
        if (rank.operations[j].lane != rank.operations[i].lane) continue;
        direct.push_back(j);
        break;
      }
      for (const std::size_t j : direct) follow(i, j);
      for (std::size_t j = 0; j < i; ++j) {
        const bool conflict = meet(used[i].written, used[j].all) || meet(used[i].all, used[j].written);
        if (conflict) CHECK(before[i][j]);
        if (std::ranges::count(after, j) == 0) continue;
        ++edges;
        CHECK(conflict);
        for (const std::size_t other : direct) CHECK_FALSE((other != j && before[other][j]));
      }
    }
  }
  CHECK(edges > 500);
}
