// The checker on the plans of ring attention: every placement, mask and option is found right, the figures
// are those of the algorithm, and random mutations that change results do not slip through.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/faults/faults.hpp"
#include "check/check.hpp"
#include "tests/algorithms/check_expect.hpp"
#include "tests/algorithms/ring_plans.hpp"
#include "tests/hand_plans/random_mutation.hpp"

using namespace cplab;
using testing::ring_scenario;
using testing::Shape;

namespace {

// Checks the plan and the figures that do not depend on options.
void require_right_ring(const Shape& shape) {
  const Scenario s = ring_scenario(shape);
  const Plan plan = build_plan(s);
  const CheckResult result = check(plan);
  INFO("P " << shape.ranks << " " << shape.placement << " window " << shape.window.left << ", "
            << shape.window.right << (shape.causal ? " causal" : "") << " sequences " << shape.lengths.size()
            << "\n"
            << hand::text(result));
  REQUIRE(result.ok());
  const std::int64_t P = shape.ranks;
  const bool empty = plan.ranks[0].buffers[0].rows == 0;  // nothing is sent
  if (s.schedule.is_word("rotation", "whole") && !empty) {
    // K and V that a rank has need not come home; of two ranks that leaves no round before the gradients.
    const bool keeps = s.schedule.is_word("own_kv", "keep") && shape.backward && P > 1;
    // Where kernels add to the sums these travel apart from K and V, and only rows that somebody has seen.
    const bool apart = s.schedule.is_word("gradient_sum", "apart");
    if (apart) CHECK(result.messages == P * (P - 1) * (shape.backward ? 3 : 1) - (keeps ? P : 0));
    const std::int64_t of_backward = apart ? P - (keeps && P == 2) : 2 * (P - 1) - keeps;
    CHECK(result.rounds <= (P - 1) + (shape.backward && P > 1 ? of_backward : 0));
    if (apart) CHECK(result.rounds == (P - 1) + (shape.backward && P > 1 ? of_backward : 0));
  }
  for (std::size_t r = 0; r < plan.ranks.size(); ++r) {
    double flops = 0;
    std::int64_t sent = 0;
    for (const Operation& op : plan.ranks[r].operations) {
      flops += op.flops;
      if (is_communication(op.kind)) sent += op.bytes;
    }
    CHECK(result.flops[r] == flops);
    CHECK(result.sent_bytes[r] == sent);
  }
}

const std::vector<std::pair<bool, Window>> ring_masks{{false, {}},     {true, {}},       {false, {5, 0}},
                                                      {false, {3, 4}}, {false, {-1, 2}}, {false, {0, -1}}};

}  // namespace

TEST_CASE("check: ring plans of every placement, mask and rank count are right") {
  for (const char* placement : {"zigzag", "contiguous", "striped", "hybrid"})
    for (int P = 1; P <= 9; ++P)
      for (const auto& [causal, window] : ring_masks)
        for (const bool backward : {false, true})
          require_right_ring({.ranks = P,
                              .placement = placement,
                              .lengths = {61},
                              .padded_lengths = {64},
                              .causal = causal,
                              .window = window,
                              .backward = backward});
}

TEST_CASE("check: ring plans of up to 64 ranks are right") {
  for (int P = 10; P <= 64; P += P < 16 ? 1 : 8) require_right_ring({.ranks = P, .lengths = {2 * P * 3}});
}

TEST_CASE("check: ring plans with packed sequences are right") {
  const std::vector<std::vector<std::int64_t>> lengths{
      {9, 8, 8, 12, 8, 12}, {0}, {1, 0, 0, 1}, {700, 1, 64}, {2, 4, 8, 16, 3}};
  const std::vector<std::vector<std::int64_t>> padded{
      {12, 8, 8, 12, 8, 12}, {0}, {4, 4, 0, 1}, {704, 1, 64}, {2, 4, 8, 16, 3}};
  for (const char* placement : {"zigzag", "contiguous", "striped", "hybrid"})
    for (const int P : {1, 2, 3, 4, 7})
      for (std::size_t i = 0; i < lengths.size(); ++i)
        for (const auto& [causal, window] : ring_masks)
          require_right_ring({.ranks = P,
                              .placement = placement,
                              .lengths = lengths[i],
                              .padded_lengths = padded[i],
                              .causal = causal,
                              .window = window});
}

TEST_CASE("check: ring plans of every option value are right") {
  for (const char* placement : {"zigzag", "contiguous", "striped", "hybrid"}) {
    for (const int P : {1, 2, 3, 4, 6, 8}) {
      for (const OptionInfo& option : find_algorithm("ring")->options) {
        for (const OptionValue& value : option.legal) {
          for (const char* copies : {"view", "copy"}) {
            std::vector<std::pair<std::string, OptionValue>> options{{std::string(option.key), value}};
            if (option.key != "tile_inputs") options.push_back({"tile_inputs", std::string(copies)});
            Shape shape{.ranks = P, .placement = placement, .lengths = {50, 14}, .options = options};
            try {
              ring_scenario(shape);
            } catch (const ScenarioError&) {
              continue;  // a combination that the algorithm refuses
            }
            require_right_ring(shape);
          }
        }
      }
    }
  }
}

TEST_CASE("check: gradients in parts of the heads, and a backward that keeps its K and V, are right") {
  for (const auto& [heads, kv_heads] : {std::pair{4, 4}, std::pair{6, 3}, std::pair{4, 1}})
    for (int P = 1; P <= 9; ++P)
      for (const char* rotation : {"whole", "needed"})
        for (const char* between : {"nothing", "layers"})
          for (const char* own_kv : {"receive", "keep"})
            for (const std::int64_t part : {1, 2, 3, 99}) {
              Shape shape{.ranks = P, .lengths = {50, 14}, .heads = heads, .kv_heads = kv_heads};
              shape.options = {{"dkv_tile_heads", part},
                               {"own_kv", std::string(own_kv)},
                               {"rotation", std::string(rotation)},
                               {"between", std::string(between)}};
              require_right_ring(shape);
            }
  for (const char* algorithm : {"hierarchical", "usp"})
    for (int P = 1; P <= 9; ++P) {
      Shape shape{.ranks = P,
                  .lengths = {50, 14},
                  .heads = 4,
                  .kv_heads = 2,
                  .options = {{"dkv_tile_heads", std::int64_t{1}}}};
      shape.algorithm = algorithm;
      const CheckResult result = check(build_plan(testing::scenario(shape)));
      INFO(algorithm << " P " << P << "\n" << hand::text(result));
      CHECK(result.ok());
    }
}

TEST_CASE("long: check: rings whose kernels add to the sums that come, in parts, are right") {
  for (const char* placement : {"zigzag", "contiguous", "striped", "hybrid"})
    for (const int P : {1, 2, 3, 4, 7})
      for (const char* rotation : {"whole", "needed"})
        for (const char* wire : {"fp32", "nominal"})
          for (const char* own_kv : {"receive", "keep"})
            for (const std::int64_t parts : {1, 2, 5})
              for (const auto& [causal, window] : ring_masks)
                for (const char* between : {"nothing", "layers"}) {
                  Shape shape{.ranks = P,
                              .placement = placement,
                              .lengths = {50, 0, 14, 1, 9},
                              .causal = causal,
                              .window = window};
                  shape.options = {
                      {"gradient_sum", std::string("fused")}, {"parts", parts},
                      {"rotation", std::string(rotation)},    {"gradient_wire_dtype", std::string(wire)},
                      {"own_kv", std::string(own_kv)},        {"between", std::string(between)}};
                  const CheckResult result = check(build_plan(ring_scenario(shape)));
                  INFO(placement << " P " << P << " " << rotation << " " << wire << " " << own_kv << " "
                                 << between << " parts " << parts << " window " << window.left << ", "
                                 << window.right << "\n"
                                 << hand::text(result));
                  REQUIRE(result.ok());
                }
}

TEST_CASE("check: every mutation of rings is found as it says, in another ring too") {
  for (const Fault& fault : faults()) {
    if (fault.form != FaultForm::mutation) continue;
    if (fault.scenario != "faults/ring.toml" && fault.scenario != "faults/packed-odd.toml") continue;
    Shape shape{.ranks = 4, .lengths = {128}, .heads = 4, .kv_heads = 2};
    if (fault.name == "thd-even-split") shape.lengths = {9, 8, 0, 70}, shape.padded_lengths = {12, 8, 4, 74};
    Plan plan = build_plan(ring_scenario(shape));
    fault.mutate(plan);
    const CheckResult result = check(plan);
    INFO(std::string(fault.name) << "\n" << hand::text(result));
    REQUIRE(fault.expected.has_value());
    bool found = false;
    for (const Finding& f : result.findings)
      found = found || (f.kind == fault.expected->kind &&
                        (fault.expected->rank < 0 || f.rank == fault.expected->rank) &&
                        (fault.expected->operation.empty() || f.operation == fault.expected->operation));
    CHECK(found);
  }
}

TEST_CASE("check: dropped edges, dropped parts and shifted views never slip through") {
  int passed = 0, mutants = 0;
  std::uint64_t seed = 0;
  for (const char* placement : {"zigzag", "contiguous", "striped", "hybrid"})
    for (const int P : {2, 3, 4})
      for (const char* merge : {"incremental", "deferred", "fused"})
        for (const bool causal : {false, true}) {
          const Plan plan = build_plan(ring_scenario({.ranks = P,
                                                      .placement = placement,
                                                      .lengths = {96},
                                                      .causal = causal,
                                                      .options = {{"merge", std::string(merge)}}}));
          for (int k = 0; k < 20; ++k) {
            Plan mutant = plan;
            const std::string change = mutate_at_random(mutant, ++seed);
            ++mutants;
            if (!check(mutant).ok()) continue;
            ++passed;
            // Only a swap of independent neighbours can leave a right plan.
            INFO(change);
            CHECK(change.find("swapped") != std::string::npos);
          }
        }
  CHECK(passed * 10 < mutants);
}

TEST_CASE("check: thousands of sequences on several ranks") {
  std::vector<std::int64_t> lengths;
  for (std::int64_t b = 0; b < 2000; ++b) lengths.push_back(17 + b * 31 % 90);
  for (const char* placement : {"zigzag", "striped"})
    require_right_ring({.ranks = 4, .placement = placement, .lengths = lengths});
}
