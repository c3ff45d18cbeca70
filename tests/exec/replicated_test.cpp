// Gradients of key heads that several operations and ranks sum up, executed: what the checker accepts equals
// the dense double-precision reference, in every order tried.
#include <doctest/doctest.h>

#include "check/check.hpp"
#include "cli/verify/verify.hpp"
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

}  // namespace
}  // namespace cplab
