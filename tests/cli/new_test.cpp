// cplab new: a scenario from options or from answers typed on a terminal; whatever it writes is checked and
// simulated.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "algorithms/core/list.hpp"
#include "cli/files/scenario_file.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/terminal.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

std::vector<std::string> with_answers(const std::string& file, const std::string& algorithm,
                                      const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"new",        file, "--algorithm", algorithm, "--ranks",    "4",
                                 "--sequence", "4K", "--heads",     "8",       "--hardware", "h100x8"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

void check_and_simulate(const std::string& file) {
  for (const char* command : {"check", "simulate"}) {
    const ProgramResult result = run_cplab({command, file});
    CAPTURE(command);
    CAPTURE(result.err);
    CHECK(result.code == 0);
  }
}

}  // namespace

TEST_CASE("of every algorithm it writes a scenario that is checked and simulated") {
  const TemporaryFolder folder;
  for (const Algorithm& algorithm : algorithms()) {
    const std::string file = folder.path(std::string(algorithm.name) + ".toml");
    const ProgramResult result = run_cplab(with_answers(file, std::string(algorithm.name)));
    CAPTURE(algorithm.name);
    CAPTURE(result.err);
    REQUIRE(result.code == 0);
    CHECK(contains(result.out, "wrote " + file));
    const ScenarioFile read = read_scenario(file, {});
    CHECK(read.scenario.algorithm == algorithm.name);
    CHECK(read.scenario.parallel.ranks == 4);
    CHECK(read.scenario.problem.sequence == 4096);
    CHECK(read.scenario.problem.heads == 8);
    CHECK(read.hardware_given == "h100x8");
    check_and_simulate(file);
  }
}

TEST_CASE("--set adds keys, an alias is a name, a machine may be a file") {
  const TemporaryFolder folder;
  const std::string file = folder.path("sub/mine.toml");
  std::filesystem::create_directories(folder.path("sub"));
  const std::string machine = folder.write("mine-h100.toml", "include = \"h100x8.toml\"\n");
  const ProgramResult result =
      run_cplab({"new", file, "--algorithm", "p2p", "--ranks", "8", "--sequence", "8192", "--heads", "16",
                 "--hardware", machine, "--set", "problem.window=[1024, 0]", "--set", "schedule.kv_slots=3",
                 "--set", "problem.kv_heads=4"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const std::string text = read_file(file);
  CAPTURE(text);
  for (const char* line : {"algorithm = \"ring\"", "window = [1024, 0]", "kv_slots = 3", "kv_heads = 4",
                           "file = \"../mine-h100.toml\"", "# Written by `cplab new`"})
    CHECK(contains(text, line));
  check_and_simulate(file);
}

TEST_CASE("advise: the algorithm that is simulated to be fastest") {
  const TemporaryFolder folder;
  const std::string file = folder.path("best.toml");
  const ProgramResult result = run_cplab(with_answers(file, "advise"));
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  CHECK(contains(result.err, "the fastest of "));
  check_and_simulate(file);
  const ScenarioFile best = read_scenario(file, {});
  const nlohmann::json all = json_of({"simulate", file, "--algorithms", "all", "--quiet"});
  CHECK(all.at("rows").at(0).at("algorithm") == best.scenario.algorithm);
  CHECK(all.at("rows").at(0).at("placement") == best.scenario.placement);
}

TEST_CASE("a file that is there stays, unless --force is given") {
  const TemporaryFolder folder;
  const std::string file = folder.write("mine.toml", "mine");
  const ProgramResult refused = run_cplab(with_answers(file, "ring"));
  CHECK(refused.code == 2);
  CHECK(contains(refused.err, "is there already; --force writes over it"));
  CHECK(read_file(file) == "mine");
  CHECK(run_cplab(with_answers(file, "ring", {"--force"})).code == 0);
  CHECK(contains(read_file(file), "algorithm = \"ring\""));
}

TEST_CASE("without a terminal what is missing is named") {
  const TemporaryFolder folder;
  const std::string file = folder.path("mine.toml");
  const ProgramResult result = run_cplab({"new", file, "--ranks", "8", "--heads", "32"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "missing: --algorithm, --sequence, --hardware"));
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("wrong answers: what would be legal, and no file") {
  const TemporaryFolder folder;
  const std::string file = folder.path("mine.toml");
  const auto error_of = [&](const std::vector<std::string>& words) {
    const ProgramResult result = run_cplab(words);
    CHECK(result.code == 2);
    CHECK_FALSE(std::filesystem::exists(file));
    return result.err;
  };
  CHECK(contains(error_of(with_answers(file, "rnig")), "did you mean ring?"));
  CHECK(contains(error_of({"new", file, "--algorithm", "ring", "--ranks", "0", "--sequence", "4K", "--heads",
                           "8", "--hardware", "h100x8"}),
                 "--ranks 0: legal: an integer from 1 to 65536"));
  CHECK(contains(error_of({"new", file, "--algorithm", "ring", "--ranks", "4", "--sequence", "4K", "--heads",
                           "8", "--hardware", "h100x9"}),
                 "did you mean"));
  CHECK(contains(error_of(with_answers(file, "ring", {"--set", "problem.haeds=4"})),
                 "did you mean \"heads\"?"));
  CHECK(contains(error_of(with_answers(file, "all_to_all", {"--set", "problem.heads=3"})),
                 "new: with these answers"));
  // More GPUs than the machine has.
  CHECK(contains(error_of({"new", file, "--algorithm", "ring", "--ranks", "64", "--sequence", "64K",
                           "--heads", "8", "--hardware", "h200x4"}),
                 "GPUs"));
}

TEST_CASE("standard output, and the result as JSON") {
  const ProgramResult text = run_cplab(with_answers("-", "ring"));
  REQUIRE(text.code == 0);
  CHECK(contains(text.out, "[parallel]"));
  CHECK_FALSE(contains(text.out, "wrote"));
  const TemporaryFolder folder;
  const std::string file = folder.path("mine.toml");
  const nlohmann::json result = json_of(with_answers(file, "ring"));
  CHECK(result.at("file") == file);
  CHECK(result.at("scenario").at("parallel").at("algorithm") == "ring");
}

TEST_CASE("on a terminal it asks, again after a wrong answer, and an empty line takes what is proposed") {
  if (!has_terminals()) return;
  const TemporaryFolder folder;
  const std::string file = folder.path("mine.toml");
  const Terminal result = on_terminal(
      {"new", file}, {.typed = "rnig\nring\n\n16K\n16\nh100x8\n", .columns = 120, .environment = {}});
  CAPTURE(result.text);
  REQUIRE(result.code == 0);
  for (const char* part : {"Which algorithm", "did you mean ring?", "Over how many GPUs", "[8]",
                           "How many tokens", "How many query heads", "On which machine", "wrote "})
    CHECK(contains(result.text, part));
  const ScenarioFile read = read_scenario(file, {});
  CHECK(read.scenario.algorithm == "ring");
  CHECK(read.scenario.parallel.ranks == 8);
  CHECK(read.scenario.problem.sequence == 16384);
  CHECK(read.scenario.problem.heads == 16);
  check_and_simulate(file);
  // What options say is not asked.
  const Terminal some = on_terminal(
      {"new", folder.path("other.toml"), "--algorithm", "ring", "--ranks", "4", "--hardware", "h100x8"},
      {.typed = "8K\n8\n", .columns = 120, .environment = {}});
  CHECK(some.code == 0);
  CHECK_FALSE(contains(some.text, "Which algorithm"));
  // The end of input is no answer.
  const Terminal ended = on_terminal({"new", folder.path("third.toml")},
                                     {.typed = "ring\n\x04", .columns = 120, .environment = {}});
  CHECK(ended.code == 2);
  CHECK(contains(ended.text, "the answers ended before ranks"));
}
