// What would not fit is refused before it is built: exit code 3, how much it needs, what to reduce.
#include <doctest/doctest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "algorithms/core/build.hpp"
#include "cli/memory_need.hpp"
#include "tests/cli/program.hpp"

namespace {

class Limit {
 public:
  explicit Limit(const char* size) { setenv("CPLAB_MEMORY", size, 1); }
  ~Limit() { unsetenv("CPLAB_MEMORY"); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;
};

void expect_no_room(const std::vector<std::string>& arguments, const std::vector<std::string>& fragments) {
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(result.err);
  CHECK(result.code == 3);
  for (const std::string& fragment : fragments) CHECK(result.err.find(fragment) != std::string::npos);
}

const std::string small_scenario =
    "[problem]\nbatch = 2\nsequence = 64\nheads = 4\nkv_heads = 2\nhead_size = 8\ndtype = \"fp32\"\n"
    "mask = \"causal\"\n[parallel]\nranks = 4\nalgorithm = \"ring\"\n";

cplab::Scenario scenario_with(const std::vector<std::string>& sets) {
  return cplab::parse_scenario(small_scenario, "s.toml", sets).scenario;
}

// The peak resident memory of a command in a process of its own.
double peak_of(const std::vector<std::string>& arguments) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) _exit(run_cplab(arguments).code);
  int status = 0;
  rusage usage = {};
  REQUIRE(wait4(child, &status, 0, &usage) == child);
  REQUIRE(WIFEXITED(status));
  REQUIRE(WEXITSTATUS(status) == 0);
  return static_cast<double>(usage.ru_maxrss) * 1024;
}

// "needs about 182.13 MiB" in bytes.
double named_need(const std::string& message) {
  const std::string before = "needs about ";
  const std::size_t at = message.find(before);
  REQUIRE(at != std::string::npos);
  std::size_t used = 0;
  const double number = std::stod(message.substr(at + before.size()), &used);
  const std::string unit = message.substr(at + before.size() + used + 1, 3);
  return number * (unit == "GiB" ? 1073741824.0 : unit == "MiB" ? 1048576.0 : unit == "KiB" ? 1024.0 : 1.0);
}

}  // namespace

TEST_CASE("long: plans that do not fit: by ranks, by sequences, and what would do") {
  const TemporaryFolder folder;
  const std::string file = folder.write("good.toml", small_scenario);
  const Limit limit("8G");
  expect_no_room({"check", file, "--set", "parallel.ranks=65536"},
                 {"--set parallel.ranks: the plan of 65536 ranks and 2 sequences needs about ",
                  "CPLAB_MEMORY", "Enough for parallel.ranks = "});
  for (const char* command : {"check", "verify"}) {
    expect_no_room({command, file, "--set", "problem.batch=1M"},
                   {"--set problem.batch: the plan of 4 ranks and 1048576 sequences needs about ",
                    "or for problem.batch = "});
  }
  const std::string large =
      folder.write("large.toml", small_scenario + "[hardware]\nfile = \"hardware/h100x64.toml\"\n");
  const Limit small("200M");
  for (const char* command : {"show", "simulate"}) {
    expect_no_room({command, large, "--set", "problem.batch=1M"},
                   {"--set problem.batch: the plan of 4 ranks"});
  }
  expect_no_room({"run", file, "--device", "cpu", "--set", "problem.batch=1M"}, {"--set problem.batch"});
  std::string packed = "[problem]\nlengths = [";
  for (int i = 0; i < 100000; ++i) packed += "7,";
  packed += "7]\n" + small_scenario.substr(small_scenario.find("heads"));
  expect_no_room({"check", folder.write("packed.toml", packed)},
                 {"packed.toml:2: problem.lengths: the plan of 4 ranks and 100001 sequences"});
}

TEST_CASE("long: what is named as enough is, and twice that is not") {
  const TemporaryFolder folder;
  const std::string file = folder.write("good.toml", small_scenario);
  const Limit limit("2G");
  const ProgramResult refused = run_cplab({"show", file, "--set", "parallel.ranks=65536"});
  const std::string before = "Enough for parallel.ranks = ";
  const std::size_t at = refused.err.find(before);
  CAPTURE(refused.err);
  REQUIRE(at != std::string::npos);
  const int enough = std::stoi(refused.err.substr(at + before.size()));
  CHECK(enough >= 2);
  expect_no_room({"show", file, "--set", "parallel.ranks=" + std::to_string(2 * enough)},
                 {before + std::to_string(enough)});
}

TEST_CASE("tensors that do not fit are refused before they are made") {
  const TemporaryFolder folder;
  const std::string file = folder.write("good.toml", small_scenario);
  const Limit limit("4G");
  expect_no_room({"verify", file, "--set", "problem.sequence=512M"},
                 {"--set problem.sequence: 1073741824 tokens: executing this on the CPU needs about ",
                  "inputs ", "the dense reference ", "its error model "});
  expect_no_room({"run", file, "--device", "cpu", "--set", "problem.sequence=512M"},
                 {"arenas of the ranks "});
}

TEST_CASE("files that do not fit") {
  const TemporaryFolder folder;
  std::string list_text = "[";
  for (int i = 0; i < 1000000; ++i) list_text += "[],";
  const std::string plan = folder.write("wide.json", list_text + "[]]");
  std::string toml = "a = [";
  for (int i = 0; i < 1000000; ++i) toml += "1,";
  const std::string scenario = folder.write("wide.toml", toml + "1]\n");
  const Limit limit("1M");
  expect_no_room({"check", "--plan", plan}, {"wide.json: reading this file needs about "});
  expect_no_room({"check", scenario}, {"wide.toml: reading this file needs about "});
}

TEST_CASE("a wrong CPLAB_MEMORY is a usage error") {
  const Limit limit("lots");
  const ProgramResult result = run_cplab({"check", "ring-small"});
  CHECK(result.code == 2);
  CHECK(result.err.find("CPLAB_MEMORY=lots: must be a size") != std::string::npos);
}

TEST_CASE("the size of a plan is known before it is built, within a factor of 1.5") {
  for (const std::vector<std::string>& sets : std::vector<std::vector<std::string>>{
           {},
           {"problem.batch=500"},
           {"problem.batch=500", "parallel.ranks=16"},
           {"problem.batch=501", "parallel.ranks=16", "parallel.placement=hybrid"},
           {"problem.batch=300", "parallel.placement=striped"},
           {"problem.batch=300", "parallel.placement=contiguous", "problem.window=[40,0]"},
           {"problem.batch=301", "parallel.ranks=3", "parallel.replicas=2", "problem.mask=full"},
           {"parallel.ranks=48"},
           {"parallel.ranks=64", "parallel.placement=contiguous", "problem.sequence=4K"},
           {"problem.batch=200", "schedule.merge=deferred", "problem.direction=forward"},
           {"problem.batch=200", "schedule.tile_inputs=copy", "parallel.ranks=8"}}) {
    const cplab::Scenario scenario = scenario_with(sets);
    const double built = cplab::size_of(cplab::build_plan(scenario)).pools;
    const double estimated = cplab::estimated_size(scenario).pools;
    std::string what;
    for (const std::string& set : sets) what += set + " ";
    CAPTURE(what);
    CAPTURE(built);
    CAPTURE(estimated);
    CHECK(estimated <= 1.5 * built);
    CHECK(built <= 1.5 * estimated);
  }
}

TEST_CASE("nightly: a command stays below the memory that it was said to need, and not far below") {
#if defined(CPLAB_SANITIZED)
  return;  // the sanitizer's own memory is larger
#endif
  const TemporaryFolder folder;
  const std::string file =
      folder.write("good.toml", small_scenario + "[hardware]\nfile = \"hardware/h100x64.toml\"\n");
  for (const auto& [command, batch] :
       {std::pair{"show", "200000"}, {"simulate", "200000"}, {"check", "20000"}}) {
    const std::string set = std::string("problem.batch=") + batch;
    const std::string dtype = "problem.dtype=bf16";
    const double base = peak_of({command, file, "--set", dtype});
    const double peak = peak_of({command, file, "--set", dtype, "--set", set}) - base;
    const Limit limit("1K");
    const double need = named_need(run_cplab({command, file, "--set", set}).err);
    CAPTURE(command);
    CAPTURE(peak);
    CAPTURE(need);
    CHECK(peak <= need);
    CHECK(need <= 4 * peak);
  }
}
