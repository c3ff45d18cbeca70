// The checker answers for anything that has the form of a plan, however wrong: no crash, no exception, no
// endless loop. Run under the sanitizers this also shows that nothing is read out of bounds.
#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "tests/algorithms/scenarios.hpp"
#include "tests/hand_plans/attention_plans.hpp"
#include "tests/hand_plans/collective_plans.hpp"
#include "tests/hand_plans/linear_plans.hpp"

using namespace cplab;

namespace {

class Corruption {
 public:
  explicit Corruption(std::uint32_t seed) : random_(seed) {}

  void apply(Plan& plan) {
    RankPlan& rank = plan.ranks[below(plan.ranks.size())];
    switch (below(9)) {
      case 0: return buffer(pick(rank.buffers));
      case 1: return operation(pick(rank.operations));
      case 2: return range(pick(rank.row_ranges));
      case 3: return view(pick(rank.views));
      case 4: {
        Access& a = pick(rank.accesses);
        return below(2) ? number(a.view) : number(a.mode);
      }
      case 5: {
        if (!rank.chunks.empty()) return chunk(pick(rank.chunks));
        return rank.segments.empty() ? void() : segment(pick(rank.segments));
      }
      case 6: {
        if (rank.parts.empty()) return;
        Part& p = pick(rank.parts);
        const std::size_t which = below(3);
        return which == 0 ? number(p.view) : which == 1 ? number(p.peer) : void(p.send = !p.send);
      }
      case 7: return rank.edges.empty() ? void() : number(pick(rank.edges));
      default: return scenario(plan, rank);
    }
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  template <class T>
  T& pick(std::vector<T>& list) {
    return list[below(list.size())];
  }
  // Small changes, other small numbers, and the ends of the type.
  template <class T>
  void number(T& x) {
    if constexpr (std::is_enum_v<T>) {
      x = static_cast<T>(below(20));
    } else {
      using Limits = std::numeric_limits<T>;
      const std::array<T, 8> values{static_cast<T>(x + 1u),
                                    static_cast<T>(x - 1u),
                                    0,
                                    1,
                                    static_cast<T>(below(64)),
                                    Limits::max(),
                                    Limits::min(),
                                    static_cast<T>(std::int64_t{1} << 39)};
      x = values[below(values.size())];
    }
  }
  void number(std::int64_t& x) {
    const std::array<std::int64_t, 8> values{x < std::numeric_limits<std::int64_t>::max() ? x + 1 : 0,
                                             x > std::numeric_limits<std::int64_t>::min() ? x - 1 : 0,
                                             0,
                                             1,
                                             static_cast<std::int64_t>(below(64)),
                                             std::numeric_limits<std::int64_t>::max(),
                                             std::numeric_limits<std::int64_t>::min(),
                                             std::int64_t{1} << 39};
    x = values[below(values.size())];
  }
  void number(std::int32_t& x) {
    std::int64_t wide = x;
    number(wide);
    x = static_cast<std::int32_t>(wide);
  }
  void span(Span& s) { below(2) ? number(s.first) : number(s.count); }

  void buffer(Buffer& b) {
    switch (below(9)) {
      case 0: return number(b.role);
      case 1: return number(b.category);
      case 2: return number(b.slots);
      case 3: return number(b.rows);
      case 4: return number(b.heads);
      case 5: return number(b.width);
      case 6: return number(b.bytes);
      case 7: return number(b.offset);
      default: b.name = "lse";
    }
  }
  void operation(Operation& op) {
    switch (below(13)) {
      case 0: return number(op.kind);
      case 1: return number(op.phase);
      case 2: return number(op.lane.kind);
      case 3: return number(op.lane.index);
      case 4: return number(op.group);
      case 5: return span(op.reads);
      case 6: return span(op.writes);
      case 7: return span(op.parts);
      case 8: {
        if (op.chunks.count > 0) return below(2) ? span(op.chunks) : void(op.reverse = !op.reverse);
        return span(op.segments);
      }
      case 9: return span(op.after);
      case 10: return number(op.head_begin);
      case 11: return number(op.head_end);
      default: op.value = std::numeric_limits<double>::quiet_NaN();
    }
  }
  void range(RowRange& r) {
    const std::size_t which = below(3);
    number(which == 0 ? r.begin : which == 1 ? r.count : r.step);
  }
  void view(View& v) {
    switch (below(8)) {
      case 0: return number(v.buffer);
      case 1: return span(v.ranges);
      case 2: return number(v.slot_begin);
      case 3: return number(v.slot_end);
      case 4: return number(v.head_begin);
      case 5: return number(v.head_end);
      case 6: return number(v.width_begin);
      default: return number(v.width_end);
    }
  }
  void segment(Segment& s) {
    const std::array<std::int64_t*, 7> fields{&s.q_begin, &s.q_count, &s.k_begin, &s.k_count,
                                              &s.offset,  &s.left,    &s.right};
    number(*fields[below(fields.size())]);
  }
  void chunk(Chunk& c) {
    switch (below(8)) {
      case 0: return number(c.row);
      case 1: return number(c.count);
      case 2: return number(c.state);
      case 3: return number(c.left);
      case 4: return number(c.right);
      case 5: return number(c.left_exponent);
      case 6: return number(c.right_exponent);
      default: c.resets = !c.resets;
    }
  }
  void scenario(Plan& plan, RankPlan& rank) {
    Problem& p = plan.scenario.problem;
    switch (below(p.attention == Attention::linear ? 15 : 12)) {
      case 0: return number(p.heads);
      case 1: return number(p.kv_heads);
      case 2: return number(p.head_size);
      case 3: return number(p.value_size);
      case 4: return number(pick(p.lengths));
      case 5: return number(pick(p.padded_lengths));
      case 6: return number(plan.scenario.parallel.ranks);
      case 7: return number(pick(pick(plan.scenario.parallel.groups)));
      case 8: return number(p.window.left);
      case 9: return number(pick(pick(plan.groups).ranks));
      case 10: return number(rank.position);
      case 12: return number(p.transition);
      case 13: return number(p.attention);
      case 14: return p.slopes.clear();
      default: return void(p.lengths.push_back(3));
    }
  }

  std::mt19937 random_;
};

void corrupt(const Plan& plan, std::uint32_t from, std::uint32_t to, int& found) {
  for (std::uint32_t seed = from; seed < to; ++seed) {
    Plan mutant = plan;
    Corruption corruption(seed);
    const std::uint32_t times = 1 + seed % 4;
    for (std::uint32_t i = 0; i < times; ++i) corruption.apply(mutant);
    CheckResult result;
    INFO("seed " << seed);
    REQUIRE_NOTHROW(result = check(mutant));
    CHECK(result.findings.size() <= 100);
    for (const Finding& f : result.findings) CHECK_FALSE(f.message.empty());
    found += !result.ok();
  }
}

}  // namespace

TEST_CASE("check: corrupted plans never crash the checker") {
  int found = 0;
  corrupt(hand::ring(3, 4), 0, 1500, found);
  corrupt(hand::ring(2, 4, hand::Merge::deferred), 1500, 2500, found);
  corrupt(hand::gathered(3, 4), 2500, 4000, found);
  corrupt(build_plan(testing::scenario({.ranks = 3, .lengths = {9, 8, 30}})), 4000, 5000, found);
  corrupt(hand::traded(4, DType::bf16), 5000, 6000, found);
  corrupt(hand::reduced(4, DType::bf16), 6000, 7000, found);
  corrupt(hand::permuted(6, DType::bf16), 7000, 8000, found);
  for (const char* placement : {"contiguous", "stream"})
    corrupt(hand::chunked(3, {7, 0, 9}, Direction::forward_backward, placement, 2), 8000, 10000, found);
  corrupt(hand::affine(3, 9, Transition::matrix), 10000, 12000, found);
  corrupt(hand::scanned(4, 9, Direction::forward_backward, hand::pipelined_slices(2)), 12000, 13000, found);
  // Most corruptions make the plan wrong; the others hit entries of the pools that no operation uses.
  CHECK(found > 9000);
}

TEST_CASE("check: empty plans") {
  CHECK_FALSE(check(Plan{}).ok());
  Plan plan = hand::ring(2, 4);
  plan.ranks.pop_back();
  CHECK_FALSE(check(plan).ok());
  Plan idle = hand::ring(2, 4);
  for (RankPlan& rank : idle.ranks) rank.operations.clear();
  CHECK_FALSE(check(idle).ok());
  Plan nothing = hand::single(0);
  CHECK(check(nothing).ok());
}
