// Fuzz target: a plan file as `check --plan` takes it. Whatever the reader lets through, the checker must
// come to an end with, and writing it again must give a plan that reads back alike.
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>

#include "check/check.hpp"
#include "derive/memory.hpp"
#include "report/plan_json.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  cplab::Plan plan;
  try {
    plan = cplab::read_plan_json(text, "plan.json");
  } catch (const cplab::PlanFileError&) {
    return 0;
  } catch (const cplab::ScenarioError&) {
    return 0;
  }
  (void)cplab::check(plan);
  std::ostringstream once, twice;
  cplab::write_plan_json(once, plan, {});
  cplab::write_plan_json(twice, cplab::read_plan_json(once.str(), "once.json"), {});
  if (once.str() != twice.str()) std::abort();
  return 0;
}
