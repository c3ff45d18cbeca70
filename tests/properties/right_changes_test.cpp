// What was accepted stays accepted, and right, however a right plan is written: other names, rows cut
// otherwise, independent operations in another order, launches over copy in any.
#include <doctest/doctest.h>

#include <array>
#include <utility>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "tests/hand_plans/right_changes.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

TEST_CASE("a plan that is accepted stays so under changes that change nothing") {
  using Change = void (*)(Plan&, std::uint64_t);
  constexpr std::array<std::pair<const char*, Change>, 4> changes{{{"renamed", hand::rename_buffers},
                                                                   {"spelt otherwise", hand::spell_otherwise},
                                                                   {"permuted", hand::permute_independent},
                                                                   {"over copy", hand::launch_over_copy}}};
  // The changes in turn, each of one scenario in four; one plan in 16 of these is executed.
  std::uint64_t seed = 0;
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    const auto& [what, change] = changes[seed / 4 % changes.size()];
    CAPTURE(name);
    CAPTURE(what);
    if (++seed % (testing::each_value_once() ? 16 : 4) != 0) continue;
    Plan plan = build_plan(scenario);
    change(plan, seed);
    for (const Finding& f : check(plan).findings)
      FAIL_CHECK(cplab::name(f.kind) << " rank " << f.rank << " " << f.operation << ": " << f.message);
    if (seed % 64 != 0) continue;
    VerifyOptions options;
    options.execution.order = {true, seed};
    for (const Finding& f : verify(plan, random_inputs(plan.scenario.problem, seed), options).findings)
      FAIL_CHECK(cplab::name(f.kind) << " rank " << f.rank << " " << f.operation << ": " << f.message);
  }
}
