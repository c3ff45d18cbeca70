// What the program prints for people fits a page of 100 columns, whatever it is about.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "cli/commands/command.hpp"
#include "cli/files/scenario_file.hpp"
#include "report/folding.hpp"
#include "tests/cli/program.hpp"

using namespace cplab;

namespace {

void check_width(const std::vector<std::string>& words) {
  std::string command = "cplab";
  for (const std::string& word : words) command += " " + word;
  const ProgramResult result = run_cplab(words);
  CAPTURE(command);
  CAPTURE(result.err);
  CHECK(result.code <= 1);
  std::istringstream lines(result.out);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(width_of(line) <= page_width);
  }
}

struct NoColumns {
  NoColumns() { unsetenv("COLUMNS"); }
} no_columns;

}  // namespace

TEST_CASE("help of every command, lists, keys") {
  check_width({"--help"});
  for (const Command& command : commands()) check_width({std::string(command.name), "--help"});
  for (const char* kind :
       {"algorithms", "placements", "scenarios", "hardware", "models", "faults", "published", "studies"})
    check_width({"list", kind});
  for (const char* word : {"problem", "parallel", "schedule", "simulate", "hardware", "model", "training",
                           "study", "time_s", "ring", "zigzag", "mask"})
    check_width({"explain", word});
  check_width({"explain"});
  check_width({"kernels"});
  check_width({"kernels", "hopper bf16 128", "--hardware", "h200x4"});
}

TEST_CASE("every scenario: simulate, and of the smaller ones show and check") {
  for (const std::string& file : scenario_names("")) {
    const ScenarioFile scenario = read_scenario(file, {});
    const std::vector<std::string> machine = scenario.hardware.empty()
                                                 ? std::vector<std::string>{"--hardware", "h100x8"}
                                                 : std::vector<std::string>{};
    const auto with_machine = [&](std::vector<std::string> words) {
      words.insert(words.end(), machine.begin(), machine.end());
      return words;
    };
    check_width(with_machine({"simulate", file}));
    if (scenario.scenario.parallel.world() > 8) continue;
    check_width(with_machine({"show", file}));
    check_width({"check", file});
  }
}

TEST_CASE("tables of many rows and columns") {
  const TemporaryFolder folder;
  check_width({"simulate", "ring", "--algorithms", "all"});
  check_width({"simulate", "ring", "--ranks", "--set", "parallel.ranks=16", "--hardware", "h100x64"});
  check_width({"run", "ring-small", "--device", "cpu", "--ranks"});
  check_width({"verify", "ring-small"});
  check_width({"verify", "faults/ring", "--inject", "ring-slot-reuse"});
  check_width({"reproduce"});
  check_width({"reproduce", "te-p2p-memory", "--detail"});
  check_width({"demo"});
  check_width({"sweep", folder.write("study.toml",
                                     "scenario = \"ring\"\n[vary]\n\"problem.sequence\" = [\"8K\", \"16K\"]\n"
                                     "\"parallel.algorithm\" = [\"ring\", \"all_to_all\", \"all_gather\"]\n"
                                     "\"schedule.between\" = [\"nothing\", \"layers\"]\n"
                                     "\"problem.direction\" = [\"forward\", \"forward+backward\"]\n")});
  const std::string predicted = folder.path("p.json"), measured = folder.path("m.json");
  REQUIRE(run_cplab({"simulate", "ring-small", "--operations", "--json", predicted, "--quiet"}).code == 0);
  REQUIRE(run_cplab({"run", "ring-small", "--device", "cpu", "--operations", "--json", measured, "--quiet"})
              .code == 0);
  check_width({"compare", predicted, measured});
  check_width({"advise", "--model", "llama3-8b", "--gpus", "8", "--sequence", "32K", "--hardware", "h100x8",
               "--emit", "megatron", "--fit"});
  check_width({"new", folder.path("mine.toml"), "--algorithm", "ring", "--ranks", "8", "--sequence", "128K",
               "--heads", "32", "--hardware", "h100x8"});
}
