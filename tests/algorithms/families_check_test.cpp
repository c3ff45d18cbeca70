// Promises of the families of algorithms about their plans: what the degenerate sizes of two levels are, that
// no edge can be left out, and what is refused with which words.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/scenarios.hpp"

using namespace cplab;
using testing::Options;
using testing::Shape;

namespace {

// What every rank does, in order: kind, phase, lane, FLOPs and bytes of every operation.
std::vector<std::string> operations(const Plan& plan) {
  std::vector<std::string> list;
  for (const RankPlan& rank : plan.ranks)
    for (const Operation& op : rank.operations)
      list.push_back(operation_id(rank, op) + " " + std::string(name(op.kind)) + " " +
                     std::string(name(op.lane.kind)) + std::to_string(op.lane.index) + " " +
                     std::to_string(op.flops) + " " + std::to_string(op.bytes));
  return list;
}

void check_same(const Shape& one, const Shape& other) {
  const Plan a = build_plan(testing::scenario(one)), b = build_plan(testing::scenario(other));
  CAPTURE(one.algorithm);
  CAPTURE(other.algorithm);
  CAPTURE(one.placement);
  CHECK(operations(a) == operations(b));
  const CheckResult x = check(a), y = check(b);
  CHECK(x.ok());
  CHECK(x.rounds == y.rounds);
  CHECK(x.messages == y.messages);
  CHECK(x.sent_bytes == y.sent_bytes);
  CHECK(x.flops == y.flops);
  CHECK(a.groups.size() == b.groups.size());
}

// "key: message" of the refusal, or "accepted".
std::string refusal(const Shape& shape) {
  try {
    testing::scenario(shape);
  } catch (const ScenarioError& error) {
    return error.key + ": " + error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("hierarchical, usp: inner_ranks=1 is the ring, operation by operation") {
  for (const char* placement : {"zigzag", "contiguous", "striped"}) {
    for (const char* name : {"hierarchical", "usp"}) {
      for (const Options& options : {Options{}, Options{{"merge", std::string("fused")}},
                                     Options{{"rotation", std::string("needed")}}}) {
        Shape ring{.ranks = 4,
                   .placement = placement,
                   .lengths = {40, 9},
                   .heads = 8,
                   .kv_heads = 4,
                   .options = options,
                   .algorithm = "ring"};
        Shape two = ring;
        two.algorithm = name;
        two.options.push_back({"inner_ranks", std::int64_t{1}});
        check_same(ring, two);
      }
    }
  }
}

TEST_CASE("hierarchical: inner_ranks=P is all_to_all, operation by operation") {
  for (const char* placement : {"zigzag", "contiguous", "striped"}) {
    for (const std::int64_t kv_heads : {8, 2}) {
      const Shape one{.ranks = 4,
                      .placement = placement,
                      .lengths = {40, 9},
                      .heads = 8,
                      .kv_heads = kv_heads,
                      .algorithm = "all_to_all"};
      Shape two = one;
      two.algorithm = "hierarchical";
      two.options = {{"inner_ranks", std::int64_t{4}}};
      check_same(one, two);
    }
  }
}

TEST_CASE("usp: teams of neighbours trade, or every (P / inner_ranks)-th rank, and rings are the others") {
  const auto groups = [](const char* order) {
    const Plan plan = build_plan(
        testing::scenario({.ranks = 6,
                           .lengths = {24},
                           .heads = 6,
                           .kv_heads = 2,
                           .options = {{"inner_ranks", std::int64_t{2}}, {"inner_order", std::string(order)}},
                           .algorithm = "usp"}));
    CHECK(check(plan).ok());
    std::vector<std::vector<int>> list;
    for (std::size_t i = 1; i < plan.groups.size(); ++i) list.push_back(plan.groups[i].ranks);
    return list;
  };
  using Lists = std::vector<std::vector<int>>;
  CHECK(groups("consecutive") == Lists{{0, 1}, {2, 3}, {4, 5}, {0, 2, 4}, {1, 3, 5}});
  CHECK(groups("strided") == Lists{{0, 3}, {1, 4}, {2, 5}, {0, 1, 2}, {3, 4, 5}});
}

// Two lanes that use one buffer are ordered by an edge, directly or by way of other operations; edges are
// transitively reduced, so that none can be left out.
TEST_CASE("S3-1: a plan without one of its edges is found wrong, whichever edge it is") {
  for (const Algorithm& algorithm : algorithms()) {
    Shape shape{
        .ranks = 3, .lengths = {24, 7}, .heads = 6, .kv_heads = 3, .algorithm = std::string(algorithm.name)};
    if (algorithm.name == "all_gather")
      shape.options = {{"compute_lanes", std::int64_t{2}}, {"gather_head_chunk", std::int64_t{1}}};
    if (algorithm.name == "hierarchical" || algorithm.name == "usp")
      shape.ranks = 4, shape.heads = 4, shape.kv_heads = 2,
      shape.options = {{"inner_ranks", std::int64_t{2}}};
    Scenario scenario = testing::without_algorithm(shape);
    scenario.algorithm = algorithm.name;
    for (const auto& [key, value] : shape.options) scenario.schedule.set(key, value);
    testing::suit(scenario.problem, scenario.algorithm);
    const Plan plan = build_plan(resolve(scenario));
    REQUIRE(check(plan).ok());
    int edges = 0;
    for (std::size_t r : {std::size_t{0}, plan.ranks.size() - 1}) {
      for (std::size_t i = 0; i < plan.ranks[r].operations.size(); ++i) {
        const auto after = plan.ranks[r].after(plan.ranks[r].operations[i]);
        for (std::size_t left_out = 0; left_out < after.size(); ++left_out) {
          Plan mutant = plan;
          RankPlan& rank = mutant.ranks[r];
          std::vector<std::uint32_t> rest(after.begin(), after.end());
          rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(left_out));
          rank.operations[i].after = {static_cast<std::uint32_t>(rank.edges.size()),
                                      static_cast<std::uint32_t>(rest.size())};
          rank.edges.insert(rank.edges.end(), rest.begin(), rest.end());
          CAPTURE(algorithm.name);
          CAPTURE(describe(rank, rank.operations[i]));
          const CheckResult result = check(mutant);
          CHECK(std::ranges::any_of(result.findings, [](const Finding& f) {
            return f.kind == FindingKind::race || f.kind == FindingKind::lifetime ||
                   f.kind == FindingKind::uninitialised;
          }));
          ++edges;
        }
      }
    }
    // Published algorithms of linear attention may have one lane alone.
    if (scenario.problem.attention == Attention::softmax) CHECK(edges > 4);
  }
}

// A reduce-scatter is sent only after the one before it has been drained: at most one is pending.
TEST_CASE("S0-6: gradients of a stride are drained before those of the next one are sent, and at the end") {
  for (const char* staging : {"drain_first", "stage_first"}) {
    for (const std::int64_t stride : {1, 2, 4}) {
      const Plan plan = build_plan(
          testing::scenario({.ranks = 3,
                             .lengths = {24},
                             .heads = 4,
                             .kv_heads = 4,
                             .options = {{"head_stride", stride}, {"staging", std::string(staging)}},
                             .algorithm = "head_strided"}));
      REQUIRE(check(plan).ok());
      for (const RankPlan& rank : plan.ranks) {
        std::uint32_t pending = UINT32_MAX;  // buffer that a reduce-scatter receives into
        int sent = 0;
        for (const Operation& op : rank.operations) {
          for (const Access& read : rank.reads(op))
            if (rank.views[read.view].buffer == pending) pending = UINT32_MAX;
          if (op.kind != OpKind::reduce_scatter) continue;
          CHECK(pending == UINT32_MAX);
          ++sent;
          for (const Part& part : rank.parts_of(op))
            if (!part.send) pending = rank.views[part.view].buffer;
        }
        CHECK(sent == 4 / stride);
        CHECK(pending == UINT32_MAX);
      }
    }
  }
}

TEST_CASE("messages: what head_strided refuses") {
  const auto said = [](const Options& options) {
    return refusal({.heads = 12, .kv_heads = 6, .options = options, .algorithm = "head_strided"});
  };
  const auto n = [](std::int64_t value) { return OptionValue(value); };
  CHECK(said({{"head_stride", n(4)}}) ==
        "schedule.head_stride: 4 does not divide kv_heads (6); legal: its divisors");
  CHECK(said({{"head_stride", n(0)}}).find("schedule.head_stride: ") == 0);
  CHECK(said({{"head_stride", n(3)}, {"forward_first_stride", n(3)}}) ==
        "schedule.forward_first_stride: 3 is not smaller than head_stride (3); legal: 0 for none, or 1 to 2");
  CHECK(said({{"backward_first_stride", n(1)}}) ==
        "schedule.backward_first_stride: 1 is not smaller than head_stride (1); legal: 0");
  CHECK(said({{"head_stride", n(2)}, {"backward_last_stride", n(7)}}) ==
        "schedule.backward_last_stride: 7 is not smaller than head_stride (2); legal: 0 for none, or 1 to 1");
  CHECK(
      said({{"head_stride", n(6)}, {"backward_first_stride", n(1)}, {"backward_last_stride", n(1)}}) ==
      "schedule.backward_last_stride: head_stride is all of kv_heads (6), so that there is one stride, which "
      "backward_first_stride cuts already; legal: 0, or a head_stride of at most 3");
}

TEST_CASE("messages: heads and ranks that do not divide, and chunks of heads") {
  CHECK(refusal({.ranks = 4, .heads = 6, .kv_heads = 2, .algorithm = "all_to_all"}) ==
        "problem.heads: parallel.ranks (4) must divide heads (6): every rank takes as many query heads; key "
        "heads "
        "may be fewer");
  CHECK(refusal({.ranks = 4, .heads = 4, .kv_heads = 1, .algorithm = "all_to_all"}) == "accepted");
  for (const char* name : {"hierarchical", "usp"}) {
    CHECK(
        refusal({.ranks = 6, .heads = 8, .options = {{"inner_ranks", std::int64_t{4}}}, .algorithm = name}) ==
        "schedule.inner_ranks: 4 does not divide parallel.ranks (6)");
    CHECK(
        refusal({.ranks = 6, .heads = 8, .options = {{"inner_ranks", std::int64_t{3}}}, .algorithm = name}) ==
        "problem.heads: schedule.inner_ranks (3) must divide heads (8): every rank takes as many query "
        "heads; "
        "key heads may be fewer");
    CHECK(refusal({.options = {{"inner_ranks", std::int64_t{0}}}, .algorithm = name})
              .find("schedule.inner_ranks: ") == 0);
  }
  CHECK(refusal({.heads = 6,
                 .kv_heads = 6,
                 .options = {{"gather_head_chunk", std::int64_t{4}}},
                 .algorithm = "all_gather"}) ==
        "schedule.gather_head_chunk: 4 does not divide kv_heads (6); legal: a divisor, or 0 for all at once");
}

TEST_CASE("messages: options of another algorithm, and other kinds of attention") {
  const std::vector<std::pair<std::string, OptionValue>> foreign{{"head_stride", std::int64_t{1}},
                                                                 {"inner_ranks", std::int64_t{1}},
                                                                 {"gather_head_chunk", std::int64_t{0}},
                                                                 {"kv_slots", std::int64_t{2}},
                                                                 {"no_such_option", true}};
  for (const Algorithm& algorithm : algorithms()) {
    const std::string name(algorithm.name);
    CAPTURE(name);
    for (const auto& [key, value] : foreign) {
      const std::string said = refusal({.options = {{key, value}}, .algorithm = name});
      CAPTURE(said);
      if (find_option(algorithm, key))
        CHECK(said == "accepted");
      else
        CHECK(said.find("schedule." + key + ": ") == 0);
    }
    const bool linear = testing::attention_of(name) == Attention::linear;
    Scenario s = testing::without_algorithm({.heads = 4, .kv_heads = 4});
    s.algorithm = algorithm.name;
    testing::take_attention(s.problem, linear ? Attention::softmax : Attention::linear);
    const std::string own = linear ? "linear" : "softmax";
    const bool masks = name == "ring" || name == "all_gather";
    if (!testing::placement_for_linear_too(algorithm).empty()) continue;
    try {
      resolve(s);
      FAIL_CHECK("another kind of attention is accepted");
    } catch (const ScenarioError& error) {
      CHECK(error.key == "problem.attention");
      CHECK(error.what() == name + " computes " + own + " attention; legal here: \"" + own + "\"" +
                                (masks ? ", \"dynamic_mask\"" : "") +
                                (linear ? ""
                                        : "; all_to_all, hierarchical, and those named lasp_ and affine_, "
                                          "compute linear attention"));
    }
  }
}
