// Another algorithm set on the command line, places by name, and which --set is to blame.
#include "cli/files/scenario_choices.hpp"

#include <doctest/doctest.h>

#include <filesystem>

#include "cli/files/scenario_file.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;

namespace {

using namespace cplab;

OptionValue word(const char* text) {
  return std::string(text);
}
OptionValue count(std::int64_t value) {
  return value;
}

Algorithm made(const char* name, std::vector<OptionInfo> options) {
  Algorithm algorithm{};
  algorithm.name = name;
  algorithm.options = std::move(options);
  return algorithm;
}

OptionInfo option(const char* key, std::vector<OptionValue> legal, bool any_count = false) {
  OptionInfo made{};
  made.key = key;
  made.legal = std::move(legal);
  made.any_count = any_count;
  return made;
}

// They share `transport`, and `slots` with other values.
const Algorithm old_one =
    made("old", {option("transport", {word("nccl"), word("copy")}), option("slots", {count(2), word("all")}),
                 option("merge", {word("fused"), word("deferred")}), option("lanes", {count(1)}, true)});
const Algorithm new_one =
    made("new", {option("transport", {word("nccl"), word("copy")}), option("slots", {count(2), count(4)}),
                 option("stride", {count(1)}, true)});

Schedule schedule_of(std::vector<std::pair<std::string, OptionValue>> options) {
  Schedule schedule;
  schedule.options = std::move(options);
  return schedule;
}

}  // namespace

TEST_CASE("options of the file's algorithm are left out for another one") {
  Schedule schedule = schedule_of(
      {{"transport", word("copy")}, {"slots", count(2)}, {"merge", word("fused")}, {"lanes", count(7)}});
  CHECK(leave_out_options(schedule, {}, old_one, new_one, {}) ==
        std::vector<std::string>{"merge=fused", "lanes=7"});
  REQUIRE(schedule.options.size() == 2);
  CHECK(schedule.is_word("transport", "copy"));
  CHECK(schedule.count("slots") == 2);
}

TEST_CASE("an option that both have and whose value only the old one takes is left out") {
  Schedule schedule = schedule_of({{"slots", word("all")}});
  CHECK(leave_out_options(schedule, {}, old_one, new_one, {}) == std::vector<std::string>{"slots=all"});
  CHECK(schedule.options.empty());
}

TEST_CASE("an option that the new one has for other problems is left out") {
  Algorithm for_linear = new_one;
  for (OptionInfo& option : for_linear.options)
    option.serves = {[](const Problem& p) { return p.attention == Attention::linear; }, "linear attention"};
  Schedule schedule = schedule_of({{"slots", count(2)}});
  Problem linear;
  linear.attention = Attention::linear;
  CHECK(leave_out_options(schedule, {}, old_one, for_linear, linear).empty());
  CHECK(leave_out_options(schedule, {}, old_one, for_linear, {}) == std::vector<std::string>{"slots=2"});
}

TEST_CASE("options given together with the new algorithm stay, and so does what no algorithm knows") {
  Schedule schedule =
      schedule_of({{"merge", word("fused")}, {"stride", count(3)}, {"sltos", count(2)}, {"lanes", count(0)}});
  CHECK(leave_out_options(schedule, {"merge"}, old_one, new_one, {}).empty());
  CHECK(schedule.options.size() ==
        4);  // the registry refuses them: merge, sltos, and lanes which was wrong before
}

TEST_CASE("the same algorithm by its alias leaves nothing out") {
  const ScenarioFile file = read_scenario(some_scenario, {"parallel.algorithm=p2p"});
  CHECK(file.notes.empty());
  CHECK(file.scenario.algorithm == "ring");
  CHECK(file.scenario.schedule.count("kv_slots") == 2);
  // packed.toml says p2p itself.
  CHECK(read_scenario("packed", {"parallel.algorithm=ring", "schedule.kv_slots=3"}).notes.empty());
}

TEST_CASE("batch is 1 unless said") {
  const char* text =
      "[problem]\nsequence = 64\nheads = 4\nhead_size = 8\ndtype = \"fp32\"\nmask = "
      "\"full\"\n[parallel]\nranks = 2\n"
      "algorithm = \"ring\"\n";
  const ScenarioFile file = parse_scenario(text, "x.toml", {});
  CHECK(file.scenario.problem.batch == 1);
  CHECK(file.scenario.problem.lengths == std::vector<std::int64_t>{64});
  const ScenarioFile three = parse_scenario(text, "x.toml", {"problem.batch=3"});
  CHECK(three.scenario.problem.lengths.size() == 3);
}

TEST_CASE("hardware and scenarios by the name that list prints") {
  for (const char* given : {"h100x8", "h100x8.toml", "hardware/h100x8", "hardware/h100x8.toml"}) {
    CAPTURE(given);
    const ScenarioFile file = read_scenario(some_scenario, {std::string("hardware.file=") + given});
    CHECK(std::filesystem::path(file.hardware) ==
          std::filesystem::path(CPLAB_TEST_SCENARIOS) / "hardware" / "h100x8.toml");
  }
  const ProgramResult unknown = run_cplab({"simulate", some_scenario, "--set", "hardware.file=h100x9"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "--set hardware.file: \"h100x9\" is not there"));
  CHECK(contains(unknown.err, "did you mean \"h100x8\"?"));
  // Every scenario that is listed is found by its name, and is the file that is listed.
  for (const std::string& file : all_scenario_names()) {
    const std::string path = std::string(CPLAB_TEST_SCENARIOS) + "/" + file;
    CHECK(std::filesystem::path(find_scenario(file)) == std::filesystem::path(path));
    CHECK(std::filesystem::exists(find_scenario(std::filesystem::path(file).stem().string())));
  }
  CHECK(contains(find_scenario("te-p2p-memory"), "published/te-p2p-memory.toml"));
  CHECK(contains(run_cplab({"check", "te-p2p"}).err, "did you mean \"te-p2p-memory\"?"));
  // A file of that name beside the scenario comes first where the scenario names it, a shipped one where the
  // command line does.
  const TemporaryFolder folder;
  folder.write("h100x8", "not a machine");
  const std::string scenario =
      folder.write("s.toml", read_file(std::string(CPLAB_TEST_SCENARIOS) + "/ring.toml"));
  CHECK(read_scenario(scenario, {"hardware.file=h100x8"}).hardware == CPLAB_TEST_SCENARIOS
        "/hardware/h100x8.toml");
  std::string text = read_file(std::string(CPLAB_TEST_SCENARIOS) + "/ring.toml");
  text.replace(text.find("hardware/h100x8.toml"), 20, "h100x8");
  CHECK(read_scenario(folder.write("named.toml", text), {}).hardware == folder.path("h100x8"));
}

TEST_CASE("list scenarios: names that find the files") {
  const ProgramResult result = run_cplab({"list", "scenarios"});
  CHECK(result.code == 0);
  for (const char* name : {"ring ", "packed ", "faults/ring ", "te-p2p-memory "}) {
    CHECK(contains(result.out, std::string("\n") + name));
  }
}

TEST_CASE("an error that only --set can have made names it") {
  const auto error = [](const std::vector<std::string>& sets) {
    std::vector<std::string> arguments{"check", some_scenario};
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    const ProgramResult result = run_cplab(arguments);
    CHECK(result.code == 2);
    return result.err;
  };
  // The key itself was set.
  CHECK(error({"problem.heads=0"}).find("cplab: --set problem.heads: must be from 1 to 65536, but is 0") ==
        0);
  // What was set makes another line of the file wrong.
  CHECK(error({"problem.heads=30"})
            .find("cplab: --set problem.heads=30: " CPLAB_TEST_SCENARIOS
                  "/ring.toml:7: problem.kv_heads: must divide heads = 30, but is 8") == 0);
  CHECK(error({"problem.head_size=64", "problem.heads=30", "parallel.ranks=4"})
            .find("cplab: --set problem.heads=30: ") == 0);
  CHECK(error({"problem.padded_lengths=[3]"}).find("cplab: --set problem.padded_lengths: needs lengths") ==
        0);
  // Two that are wrong only together.
  CHECK(contains(error({"problem.heads=30", "problem.head_size=64", "problem.kv_heads=7"}),
                 "--set problem.kv_heads"));
  // A file that is wrong by itself is named by itself.
  const TemporaryFolder folder;
  std::string text = read_file(std::string(CPLAB_TEST_SCENARIOS) + "/ring.toml");
  text.replace(text.find("heads = 32"), 10, "heads = 31");
  const std::string file = folder.write("bad.toml", text);
  const ProgramResult bad = run_cplab({"check", file, "--set", "problem.batch=2"});
  CHECK(bad.err.find("cplab: " + file + ":7: problem.kv_heads: ") == 0);
  // Later stages: what was set beside the line that is named.
  const ProgramResult memory = run_cplab({"verify", some_scenario, "--set", "problem.batch=1000"});
  CHECK(memory.code == 3);
  CHECK(contains(memory.err, "; with --set problem.batch=1000"));
  // A machine without a file.
  const ProgramResult machine = run_cplab({"simulate", "faults/ring", "--set", "hardware.gpu.sms=3"});
  CHECK(machine.err.find("cplab: --set hardware.gpu.sms: hardware.file is missing") == 0);
}
