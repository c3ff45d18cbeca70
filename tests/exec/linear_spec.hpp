// Small resolved scenarios of linear attention, and their verification in one line.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "cli/verify/verify.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab {

struct LinearScenarioSpec {
  std::string algorithm = "lasp_blelloch";
  std::int64_t ranks = 4;
  DType dtype = DType::fp64;
  std::string placement = "contiguous";
  Transition transition = Transition::decay;
  Gate gate = Gate::column;
  std::vector<double> slopes;  // for all heads, again and again; empty: some
  std::int64_t sequence = 50;
  std::vector<std::int64_t> lengths;         // packed if not empty
  std::vector<std::int64_t> padded_lengths;  // default: lengths
  std::int64_t heads = 3, head_size = 8, value_size = 5;
  bool backward = true;
  std::int64_t replicas = 1;
  std::int64_t convolution = 0;
  std::vector<std::pair<std::string, OptionValue>> options;
};

inline Scenario linear_scenario(const LinearScenarioSpec& spec) {
  Scenario s;
  Problem& p = s.problem;
  p.packed = !spec.lengths.empty();
  p.batch = p.packed ? 0 : 2;
  p.sequence = p.packed ? 0 : spec.sequence;
  p.format = p.packed ? Format::thd : Format::bshd;
  p.lengths = p.packed ? spec.lengths : std::vector<std::int64_t>(2, spec.sequence);
  p.padded_lengths = spec.padded_lengths.empty() ? p.lengths : spec.padded_lengths;
  p.heads = spec.heads;
  p.head_size = spec.head_size;
  p.value_size = spec.value_size;
  p.dtype = spec.dtype;
  p.transition = spec.transition;
  p.gate = spec.gate;
  p.slopes = spec.slopes;
  p.convolution = spec.convolution;
  p.direction = spec.backward ? Direction::forward_backward : Direction::forward;
  testing::take_attention(p, Attention::linear);
  s.parallel.ranks = spec.ranks;
  s.parallel.replicas = spec.replicas;
  s.algorithm = spec.algorithm;
  s.placement = spec.placement;
  for (const auto& [key, value] : spec.options) s.schedule.set(key, value);
  return testing::resolve_with_heads(s);
}

// Transitions that are no decay by slopes.
struct GatedTransition {
  Transition transition;
  Gate gate = Gate::column;
};
inline constexpr GatedTransition gated_transitions[] = {
    {Transition::head}, {Transition::column}, {Transition::matrix}, {Transition::matrix, Gate::head}};

inline std::vector<std::string> linear_algorithms(Transition transition) {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) {
    LinearScenarioSpec spec;
    spec.algorithm = algorithm.name;
    spec.transition = transition;
    try {
      (void)linear_scenario(spec);
      names.push_back(spec.algorithm);
    } catch (const ScenarioError&) {
      continue;
    }
  }
  return names;
}

// Every tensor passes with a margin of 1.25 at least. What the checker says is the affair of other tests.
inline void check_tensors(const Plan& plan, const VerifyResult& result) {
  CHECK(result.outputs.has_value());
  for (const RankPlan& rank : plan.ranks)
    CHECK(std::ranges::count(result.tensors, rank.rank, &TensorFigures::rank) >= 1);
  for (const Finding& finding : result.findings)
    if (finding.kind == FindingKind::numerics || finding.operation.empty()) MESSAGE(finding.message);
  for (const TensorFigures& t : result.tensors) {
    CAPTURE(t.rank);
    CAPTURE(t.tensor);
    CHECK(t.ok);
    CHECK(t.rel_l2 <= 0.8 * t.tolerance);
  }
}

inline VerifyResult verify_linear(const LinearScenarioSpec& spec, const CpuOptions& options = {}) {
  const Plan plan = build_plan(linear_scenario(spec));
  VerifyResult result = verify(plan, random_inputs(plan.scenario.problem, 1), {options});
  check_tensors(plan, result);
  return result;
}

}  // namespace cplab
