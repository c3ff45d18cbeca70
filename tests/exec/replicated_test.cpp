// Gradients of key heads that several operations and ranks sum up, executed: what the checker accepts equals
// the dense double-precision reference, in every order tried.
#include <doctest/doctest.h>

#include <string>

#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "tests/hand_plans/random_mutation.hpp"
#include "tests/hand_plans/replica_plans.hpp"

namespace cplab {
namespace {

TEST_CASE("key heads that several ranks hold, each with some of their query heads, equal the reference") {
  using hand::Home;
  for (const hand::Replicas& what : {hand::Replicas{8, 2, 4, 5, Home::reduce_scatter, 1},
                                     {8, 2, 4, 5, Home::all_reduce},
                                     {6, 3, 2, 7, Home::exchange},
                                     {8, 1, 4, 3, Home::exchange, 1},
                                     {8, 1, 4, 3, Home::all_reduce},
                                     {12, 4, 3, 4, Home::exchange, 2},
                                     {12, 4, 3, 4, Home::reduce_scatter}}) {
    CAPTURE(what.heads);
    CAPTURE(what.kv_heads);
    CAPTURE(what.ranks);
    CAPTURE(static_cast<int>(what.home));
    const Plan plan = hand::replicated(what);
    for (const Finding& finding : check(plan).findings) FAIL_CHECK(finding.message);
    const Inputs inputs = random_inputs(plan.scenario.problem, 3);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      CpuOptions options;
      options.order = {seed > 0, seed};
      options.iterations = 2;
      const VerifyResult result = verify(plan, inputs, {options});
      for (const Finding& finding : result.findings) FAIL_CHECK(finding.message);
      // Rounding of sums of at most 28 keys and 8 query heads in double: far below 1e-12.
      for (const TensorFigures& t : result.tensors) CHECK_MESSAGE(t.rel_l2 < 1e-12, t.tensor);
    }
  }
}

TEST_CASE("key heads on several ranks: what the checker accepts of random changes is right") {
  int accepted = 0;
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    Plan plan = hand::replicated({4, 1, 2, 3, hand::Home::exchange, 1});
    const std::string change = mutate_at_random(plan, seed);
    CAPTURE(change);
    if (!check(plan).ok()) continue;
    ++accepted;
    for (std::uint64_t order = 0; order < 3; ++order) {
      CpuOptions options;
      options.order = {true, order};
      options.iterations = 2;
      CHECK(verify(plan, random_inputs(plan.scenario.problem, seed), {options}).ok());
    }
  }
  CHECK(accepted > 0);
  CHECK(accepted < 300);
}

}  // namespace
}  // namespace cplab
