// Faults in plans of every algorithm, not only in the example of each: a mutation that finds a place is found
// by the checker as what it is declared to be, one that finds none says what it needs.
#include "algorithms/faults/faults.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "check/check.hpp"
#include "derive/edges.hpp"
#include "derive/edits.hpp"
#include "tests/algorithms/scenarios.hpp"

namespace cplab {
namespace {

using testing::Shape;

std::vector<Shape> shapes_of(const Algorithm& algorithm) {
  std::vector<Shape> shapes;
  for (const int ranks : {2, 4, 6, 8})
    for (const std::string_view placement : algorithm.placements)
      for (const bool packed : {false, true})
        for (const Window window : {Window{}, Window{3, 3}, Window{5, 0}}) {
          Shape s{.ranks = ranks, .placement = std::string(placement), .causal = window.right <= 0};
          s.window = window;
          s.lengths = packed ? std::vector<std::int64_t>{37, 2, 0, 50} : std::vector<std::int64_t>{96, 96};
          s.padded_lengths = packed ? std::vector<std::int64_t>{60, 9, 3, 50} : s.lengths;
          s.heads = 12, s.kv_heads = 4, s.head_size = 8, s.value_size = 4;
          s.algorithm = algorithm.name;
          shapes.push_back(s);
          if (window == Window{} && !packed) shapes.push_back(s), shapes.back().sink = true;
          // Of linear attention, which others than its own algorithms refuse; two of a kind are one.
          for (const Transition transition : {Transition::decay, Transition::column}) {
            if (window != Window{}) break;
            Shape linear = s;
            linear.attention = Attention::linear;
            linear.transition = transition;
            for (const std::int64_t length : {96, 102}) {
              if (!packed) linear.lengths = linear.padded_lengths = {length, length};
              shapes.push_back(linear);
              linear.options = {{"between", std::string("layers")}};
            }
          }
          // The example of faults has most of these at their defaults.
          const auto with = [&](std::string_view key, const OptionValue& value) {
            if (!find_option(algorithm, key)) return;
            shapes.push_back(s);
            shapes.back().options = {{std::string(key), value}, {"pack_above", std::int64_t{1000}}};
          };
          with("compute_lanes", std::int64_t{2});
          with("gather_head_chunk", std::int64_t{1});
          with("staging", std::string("stage_first"));
          with("inner_ranks", std::int64_t{2});
        }
  return shapes;
}

// Faults that find a place and change no result: of blocking-shift always, of the published scan up to P = 7.
bool stays_right(const Fault& fault, const Shape& shape) {
  return !fault.expected || (fault.name == "published-down-sweep" && shape.ranks < 8);
}

}  // namespace

TEST_CASE("long: a mutation that finds a place is found as what it is, any other says what it needs") {
  std::map<std::string_view, int> places, as_declared;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Shape& shape : shapes_of(algorithm)) {
      std::optional<Plan> right;
      try {
        right = build_plan(testing::scenario(shape));
      } catch (const ScenarioError&) {
        continue;  // a combination that the algorithm refuses
      }
      for (const Fault& fault : faults()) {
        if (fault.form != FaultForm::mutation) continue;
        CAPTURE(std::string(fault.name));
        CAPTURE(std::string(algorithm.name) + ", " + shape.placement);
        CAPTURE(shape.ranks);
        Plan plan = *right;
        try {
          fault.mutate(plan);
        } catch (const ScenarioError& error) {
          const std::string message = error.what();
          CHECK(message.find(std::string(fault.name) + " has no place in this plan; it needs ") !=
                std::string::npos);
          continue;
        }
        ++places[fault.name];
        const CheckResult result = check(plan);
        CHECK(result.ok() == stays_right(fault, shape));
        if (result.ok()) {
          ++as_declared[fault.name];
          continue;
        }
        as_declared[fault.name] += std::ranges::any_of(
            result.findings, [&](const Finding& f) { return f.kind == fault.expected->kind; });
      }
    }
  }
  for (const Fault& fault : faults()) {
    if (fault.form != FaultForm::mutation) continue;
    CAPTURE(std::string(fault.name));
    CHECK(places[fault.name] > 0);
    // stale-kv may read a slot that nobody has written; all others are always what they say.
    if (fault.name != "stale-kv") CHECK(as_declared[fault.name] == places[fault.name]);
  }
}

TEST_CASE("an operation that moves keeps its edges, but for those that would point forward") {
  const Plan right = build_plan(testing::scenario({.ranks = 4, .algorithm = "ring"}));
  const auto n = right.ranks[1].operations.size();
  for (std::size_t from = 0; from < n; ++from) {
    for (std::size_t to = 0; to < n; ++to) {
      Plan plan = right;
      RankPlan& rank = plan.ranks[1];
      for (std::size_t i = 0; i < n; ++i) rank.operations[i].bytes = static_cast<std::int64_t>(i);  // a name
      move_operation(rank, from, to);
      CHECK(rank.operations[to].bytes == static_cast<std::int64_t>(from));
      for (std::size_t i = 0; i < n; ++i) {
        const auto name = static_cast<std::size_t>(rank.operations[i].bytes);
        if (i != to) CHECK(name == (i < to ? i + (i >= from ? 1 : 0) : i - (i <= from ? 1 : 0)));
        std::vector<std::int64_t> after, expected;
        for (const std::uint32_t e : rank.after(rank.operations[i]))
          after.push_back(rank.operations[e].bytes);
        for (const std::uint32_t e : right.ranks[1].after(right.ranks[1].operations[name])) {
          const auto place = std::ranges::find(rank.operations, std::int64_t{e}, &Operation::bytes);
          if (place - rank.operations.begin() < static_cast<std::ptrdiff_t>(i)) expected.push_back(e);
        }
        CHECK(after == expected);
      }
    }
  }
}

// What is wrong in communicator-order is the order alone: with a lane for each group and one order it is
// right.
TEST_CASE("groups may have lanes of their own, in one order of issue") {
  Plan plan = build_plan(testing::scenario({.ranks = 4,
                                            .heads = 4,
                                            .kv_heads = 2,
                                            .options = {{"inner_ranks", std::int64_t{2}}},
                                            .algorithm = "hierarchical"}));
  for (RankPlan& rank : plan.ranks) {
    for (Operation& op : rank.operations)
      if (op.kind == OpKind::exchange) op.lane.index = 1;
    derive_edges(rank);
  }
  CHECK(check(plan).ok());
}

namespace {

// Whether TransformerEngine's call for chunk c (6.2 and 6.3 of its all-gather: one shift of the window, of
// the longest sequence; kernels that align the last query with the last key) masks other pairs than the
// window does. The sequence has `length` tokens in 2P chunks of m; the longest one has chunks of `longest`.
bool source_masks_wrongly(std::int64_t P, std::int64_t m, std::int64_t length, std::int64_t longest, Window w,
                          std::int64_t c) {
  const std::int64_t queries = std::clamp<std::int64_t>(length - c * m, 0, m);
  const std::int64_t keys = w.right < 0 ? length : std::min(length, m * (c + 1) + w.right);
  const std::int64_t chunk_end = (c + 1) * longest, all = 2 * P * longest;
  const std::int64_t range_end = w.right < 0 ? all : std::min(all, chunk_end + w.right);
  for (std::int64_t i = 0; i < queries; ++i) {
    for (std::int64_t key = 0; key < length; ++key) {
      const std::int64_t d = key - (c * m + i), aligned = key - (i + keys - queries);
      const bool live = (w.left < 0 || d >= -w.left) && (w.right < 0 || d <= w.right);
      const bool computed = key < keys && (w.left < 0 || aligned >= -(w.left + range_end - chunk_end)) &&
                            (w.right < 0 || aligned <= chunk_end + w.right - range_end);
      if (live != computed) return true;
    }
  }
  return false;
}

}  // namespace

TEST_CASE("window-one-shift is wrong where a mask oracle says so, and nowhere for causal windows") {
  int wrong = 0, right = 0;
  for (const std::int64_t P : {2, 3})
    for (const std::int64_t m : {1, 2})
      for (std::int64_t length = 1; length <= 2 * P * m; ++length)
        for (const std::int64_t longest : {m, m + 2})
          for (const Window window :
               {Window{0, 1}, Window{3, 3}, Window{-1, 2}, Window{2, -1}, Window{3, 0}}) {
            Shape shape{
                .ranks = static_cast<int>(P), .placement = "zigzag", .causal = false, .window = window};
            shape.lengths = {length, 2 * P * longest};
            shape.padded_lengths = {2 * P * m, 2 * P * longest};
            shape.algorithm = "all_gather";
            shape.backward = false;
            Plan plan = build_plan(testing::scenario(shape));
            CHECK(check(plan).ok());
            bool expected = false;
            for (std::int64_t c = 0; c < 2 * P; ++c)
              expected = expected || source_masks_wrongly(P, m, length, longest, window, c) ||
                         source_masks_wrongly(P, longest, 2 * P * longest, longest, window, c);
            try {
              find_fault("window-one-shift")->mutate(plan);
            } catch (const ScenarioError&) {
            }
            CAPTURE(P);
            CAPTURE(m);
            CAPTURE(length);
            CAPTURE(longest);
            CAPTURE(window.left);
            CAPTURE(window.right);
            CHECK(check(plan).ok() == !expected);
            if (window.right == 0) CHECK_FALSE(expected);
            (expected ? wrong : right) += 1;
          }
  CHECK(wrong > 0);
  CHECK(right > 0);
  // The smallest: 2 tokens, padded to 4, over 2 ranks, a query sees itself and the next. Query 1 sees key 0.
  CHECK(source_masks_wrongly(2, 1, 2, 1, {0, 1}, 1));
  // Of a window as wide to the left: 2 tokens, padded to 8. Query 0 does not see key 1.
  CHECK(source_masks_wrongly(2, 2, 2, 8, {3, 3}, 0));
}

}  // namespace cplab
