// Plan files: what `show` writes, `check --plan` reads, and it is the same plan.
#include <doctest/doctest.h>

#include <sstream>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "report/plan_json.hpp"
#include "tests/scenarios/same_plan.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

namespace {

std::string text_of(const Plan& plan) {
  std::ostringstream out;
  write_plan_json(out, plan, {{"cplab", "0.1.0"}, {"commit", "abc"}});
  return out.str();
}

}  // namespace

TEST_CASE("every plan survives its file, and means the same to the checker") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    const Plan plan = build_plan(scenario);
    const std::string text = text_of(plan);
    const Plan again = read_plan_json(text, "plan.json");
    CHECK(testing::difference(plan, again) == "");
    CHECK(text_of(again) == text);
    const CheckResult before = check(plan), after = check(again);
    CHECK(after.ok());
    CHECK(after.rounds == before.rounds);
    CHECK(after.messages == before.messages);
    CHECK(after.flops == before.flops);
    CHECK(after.sent_bytes == before.sent_bytes);
  }
}
