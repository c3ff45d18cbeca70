// Verification of a scenario in one line.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>

#include "algorithms/core/build.hpp"
#include "cli/verify/verify.hpp"
#include "tests/exec/scenarios.hpp"

namespace cplab {

inline VerifyResult verify_spec(const ScenarioSpec& spec, std::uint64_t seed = 1,
                                const CpuOptions& options = {}) {
  const Plan plan = build_plan(scenario(spec));
  return verify(plan, random_inputs(plan.scenario.problem, seed), {options});
}

// Those of a sink and of the numbers of a bias.
inline int gradients_of_logits(const ScenarioSpec& spec) {
  const bool numbers = spec.bias != BiasForm::none && spec.bias != BiasForm::alibi;
  return spec.backward ? int{spec.sink} + int{numbers} : 0;
}

// Everything passes with a margin of 1.25 at least; returns the largest part of a tolerance that was used.
inline double check_clean(const ScenarioSpec& spec, std::uint64_t seed = 1) {
  const VerifyResult result = verify_spec(spec, seed);
  CHECK(result.ok());
  for (const Finding& finding : result.findings) MESSAGE(finding.message);
  CHECK(result.outputs.has_value());
  CHECK(result.tensors.size() ==
        static_cast<std::size_t>(spec.ranks * spec.replicas *
                                 ((spec.backward ? 5 : 2) + spec.max_logit + gradients_of_logits(spec))));
  double most = 0;
  for (const TensorFigures& t : result.tensors) {
    CHECK(t.ok);
    CHECK(t.rel_l2 <= t.tolerance);
    if (t.tolerance > 0) most = std::max(most, t.rel_l2 / t.tolerance);
  }
  CHECK(most < 0.8);
  return most;
}

}  // namespace cplab
