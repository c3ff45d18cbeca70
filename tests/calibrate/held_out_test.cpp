// Drawn scenarios: most of them are scenarios, of the kind that they are drawn for, and have a prediction.
#include "calibrate/held_out.hpp"

#include <doctest/doctest.h>

#include <map>

#include "cli/files/scenario_file.hpp"
#include "cli/held_out_runs.hpp"
#include "cli/memory_need.hpp"
#include "cli/prediction.hpp"
#include "cli/session.hpp"

using namespace cplab;

TEST_CASE("drawn scenarios are what they say, and all kinds come") {
  for (const int gpus : {1, 2, 4, 8}) {
    CAPTURE(gpus);
    std::map<std::string, int> kinds;
    for (int index = 0; index < 60; ++index) {
      const measure::Drawn drawn = measure::draw(3, index, gpus);
      CAPTURE(drawn.text);
      const ScenarioFile file = parse_scenario(drawn.text, "drawn", {});
      const Plan plan = plan_of(file, PlanUse::simulate);
      CHECK(accuracy_kind(plan.scenario) == drawn.kind);
      ++kinds[drawn.kind];
    }
    CHECK(kinds.size() == (gpus == 1 ? 1 : 10));
  }
}

TEST_CASE("drawn scenarios are predicted by a shipped machine") {
  for (int index = 0; index < 20; ++index) {
    const measure::Drawn drawn = measure::draw(5, index, 2);
    CAPTURE(drawn.text);
    const ScenarioFile file =
        parse_scenario(drawn.text + "\n[hardware]\nfile = \"hardware/h200x4.toml\"\n", "drawn", {});
    const double seconds = predict(file, plan_of(file, PlanUse::simulate)).figures.time_s;
    CHECK(seconds > 10e-6);
    CHECK(seconds < 0.25);  // longer ones are passed over
  }
}

TEST_CASE("squares that a scenario issues are measured with its own heads and lengths") {
  // A ring over zigzag halves: the first step is a causal square of all of a rank's rows, 8192 / 2; further
  // ones are halves, which are no squares.
  const auto shapes = [](const char* algorithm) {
    const std::string text =
        std::string(
            "[problem]\nsequence = 8192\nheads = 24\nhead_size = 128\n"
            "dtype = \"bf16\"\nmask = \"causal\"\n[parallel]\nranks = 2\nalgorithm = \"") +
        algorithm + "\"\n";
    return squares_of(plan_of(parse_scenario(text, "x.toml", {}), PlanUse::simulate));
  };
  CHECK(shapes("ring") == std::vector<measure::AttentionShape>{{1, 4096, 24, 128, true}});
  // Half of the heads on all tokens.
  CHECK(shapes("all_to_all") == std::vector<measure::AttentionShape>{{1, 8192, 12, 128, true}});
}

TEST_CASE("the same seed draws the same, another seed another") {
  CHECK(measure::draw(1, 7, 2).text == measure::draw(1, 7, 2).text);
  CHECK(measure::draw(1, 7, 2).text != measure::draw(2, 7, 2).text);
}
