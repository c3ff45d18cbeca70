// [[simulate.slow]], jitter and seed as a user gives them: in a file, by --set, in results and back.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

json simulated(const std::vector<std::string>& sets) {
  std::vector<std::string> arguments{"simulate", "ring", "--quiet"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments);
}

std::string error_of(const std::string& set) {
  const ProgramResult result = run_cplab({"simulate", "ring", "--set", set});
  CHECK(result.code == 2);
  return result.err;
}

}  // namespace

TEST_CASE("disturbance: what is slow is in the result, and a result with it is had again") {
  const json slow = simulated({"simulate.slow=[{rank = 5, link = 0.5, compute = 0.9, nic = 0.1}]",
                               "simulate.jitter=0.05", "simulate.seed=3"});
  const json said = slow.at("scenario").at("simulate");
  CHECK(said.at("slow") == json::parse(R"([{"rank": 5, "link": 0.5, "compute": 0.9, "nic": 0.1}])"));
  CHECK(said.at("jitter") == 0.05);
  CHECK(said.at("seed") == 3);
  CHECK(slow.at("time_s") > simulated({}).at("time_s"));
  CHECK(simulated({"simulate.slow=[{rank = 5, compute = 0.5}]"}).at("time_s").get<double>() >
        1.9 * simulated({}).at("time_s").get<double>());
  CHECK_FALSE(simulated({}).at("scenario").at("simulate").contains("slow"));
  // As a plan and as a result.
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json"), result = folder.path("result.json");
  const std::vector<std::string> sets{"--set", "simulate.slow=[{rank = 2, compute = 0.5}]", "--set",
                                      "simulate.jitter=0.1"};
  const auto with = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), sets.begin(), sets.end());
    return arguments;
  };
  REQUIRE(run_cplab(with({"show", "ring", "--json", plan, "--quiet"})).code == 0);
  REQUIRE(run_cplab(with({"simulate", "ring", "--json", result, "--quiet"})).code == 0);
  const json first = json::parse(read_file(result));
  CHECK(json_of({"simulate", "--plan", plan, "--quiet"}).at("time_s") == first.at("time_s"));
  CHECK(json_of({"simulate", "--rerun", result, "--quiet"}).at("time_s") == first.at("time_s"));
}

TEST_CASE("disturbance: a file has a table for each slow rank") {
  const TemporaryFolder folder;
  const std::string scenario = folder.write(
      "slow.toml",
      read_file(CPLAB_TEST_SCENARIOS "/ring.toml") +
          "\n[[simulate.slow]]\nrank = 1\nlink = 0.5\n[[simulate.slow]]\nrank = 0\nnic = 0.25\n");
  const json said = json_of({"simulate", scenario, "--quiet"}).at("scenario").at("simulate").at("slow");
  CHECK(said == json::parse(R"([{"rank": 0, "nic": 0.25}, {"rank": 1, "link": 0.5}])"));
}

TEST_CASE("disturbance: what is wrong says what is legal") {
  CHECK(contains(error_of("simulate.slow=[{rank = 8, link = 0.5}]"), "must be from 0 to 7, but is 8"));
  CHECK(contains(error_of("simulate.slow=[{rank = 1, link = 2}]"), "above 0, at most 1"));
  CHECK(contains(error_of("simulate.slow=[{rank = 1, compute = 0}]"), "above 0, at most 1"));
  CHECK(contains(error_of("simulate.slow=[{rank = 1, lnk = 0.5}]"), "did you mean \"link\"?"));
  CHECK(contains(error_of("simulate.slow=[{rank = 1}]"), "one of link, compute and nic"));
  CHECK(contains(error_of("simulate.slow=[{link = 0.5}]"), "the rank that is slow, from 0 to 7"));
  CHECK(contains(error_of("simulate.slow=[{rank = 1, nic = 1}, {rank = 1, link = 0.5}]"), "there twice"));
  CHECK(contains(error_of("simulate.slow=5"), "simulate.slow"));
  CHECK(contains(error_of("simulate.jitter=1"), "from 0 to below 1"));
  CHECK(contains(error_of("simulate.jitter=-0.1"), "from 0 to below 1"));
  CHECK(contains(error_of("simulate.seed=-1"), "simulate.seed"));
  CHECK(contains(run_cplab({"simulate", "ring", "--set", "simulate.seed=2"}).err, "not used"));
}
