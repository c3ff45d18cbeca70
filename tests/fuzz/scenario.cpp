// Fuzz target: a scenario file. One that is small enough to plan is planned, checked and given a memory plan.
#include <cstdint>
#include <string>

#include "algorithms/core/build.hpp"
#include "check/check.hpp"
#include "cli/files/scenario_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  try {
    const cplab::ScenarioFile file = cplab::parse_scenario(text, "scenario.toml", {});
    const cplab::Scenario& scenario = file.scenario;
    constexpr std::int64_t most_ranks = 8;
    constexpr std::size_t most_sequences = 16;  // larger plans only take longer
    if (scenario.parallel.world() > most_ranks || scenario.problem.lengths.size() > most_sequences) return 0;
    (void)cplab::check(cplab::build_plan(scenario));
  } catch (const cplab::InputError&) {
  } catch (const cplab::ScenarioError&) {
  }
  return 0;
}
