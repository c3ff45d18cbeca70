// What is shown on a terminal while a command works, and nowhere else. The program runs in a child process
// whose streams are a pseudo-terminal.
#include "cli/progress.hpp"

#include <doctest/doctest.h>

#include "algorithms/core/build.hpp"
#include "cli/files/hardware_file.hpp"
#include "exec/cpu/executor.hpp"
#include "sim/simulate.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/terminal.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;

namespace {

using namespace cplab;

// `after_s`: when the line is shown first.
Terminal on_terminal(const std::vector<std::string>& arguments, const char* after_s,
                     unsigned short columns = 120) {
  return ::on_terminal(
      arguments,
      {.typed = "", .columns = columns, .environment = {{"CPLAB_TEST_PROGRESS_AFTER_S", after_s}}});
}

// The live lines, each without the sequence that clears the one before.
std::vector<std::string> live_lines(const std::string& text) {
  const std::string clear = "\r\033[K";
  std::vector<std::string> lines;
  for (std::size_t at = text.find(clear); at != std::string::npos;) {
    const std::size_t from = at + clear.size();
    at = text.find(clear, from);
    if (at != std::string::npos) lines.push_back(text.substr(from, at - from));
  }
  return lines;
}

}  // namespace

TEST_CASE("every command that works shows what it does, with counts, and clears the line") {
  if (!has_terminals()) return;
  const TemporaryFolder folder;
  const std::string predicted = folder.path("p.json"), measured = folder.path("m.json");
  REQUIRE(run_cplab({"simulate", "ring-small", "--operations", "--json", predicted, "--quiet"}).code == 0);
  REQUIRE(run_cplab({"run", "ring-small", "--device", "cpu", "--operations", "--json", measured, "--quiet"})
              .code == 0);
  struct Case {
    std::vector<std::string> arguments;
    std::vector<std::string> stages;
  };
  for (const Case& c :
       {Case{{"verify", "packed"},
             {"building the plan, 0 s", "checking, 0 s", "executing: 0 of ", " operations, 0 s",
              "reference of sequence 1 of 5: 0 of 4 heads, 0 s",
              "tolerances of sequence 5 of 5: ", "comparing: 0 of 8 ranks"}},
        Case{{"verify", "ring-small", "--set", "problem.batch=1"}, {"reference: 0 of 4 heads"}},
        Case{{"check", "ring-small"}, {"building the plan, 0 s", "checking, 0 s"}},
        Case{{"simulate", some_scenario}, {"building the plan, 0 s", "simulating: 0 of "}},
        Case{{"show", some_scenario}, {"building the plan, 0 s", "simulating: 0 of "}},
        Case{{"run", "ring-small", "--device", "cpu"},
             {"building the plan, 0 s", "4 iterations, 3 of them measured: 0 of "}},
        Case{{"reproduce", "te-p2p-memory"}, {"plans of 4 ranks: 1 of "}},
        Case{{"compare", predicted, measured}, {"reading " + measured}},
        Case{{"demo"}, {"kv_slots all, striped: row 9 of 9"}}}) {
    CAPTURE(c.arguments.front());
    const Terminal result = on_terminal(c.arguments, "0");
    CHECK(result.code == 0);
    for (const std::string& stage : c.stages) {
      CAPTURE(stage);
      CHECK(contains(result.text, stage));
    }
    // What is shown last is the cleared line, and the result stands after it.
    const std::size_t last = result.text.rfind("\r\033[K");
    REQUIRE(last != std::string::npos);
    CHECK(result.text.find_first_not_of("\r\n", last + 4) != std::string::npos);
    CHECK_FALSE(contains(result.text.substr(last + 4), ", 0 s"));
  }
}

TEST_CASE("what is left takes as long for each as what was done, and is rounded up") {
  using cplab::Progress;
  CHECK(Progress::time_left(10, 0, 100).empty());    // nothing is known yet
  CHECK(Progress::time_left(10, 100, 100).empty());  // nothing is left
  CHECK(Progress::time_left(10, 50, 100) == ", about 10 s left");
  CHECK(Progress::time_left(10, 40, 100) == ", about 15 s left");
  CHECK(Progress::time_left(1, 3, 4) == ", about 1 s left");     // 0.33 s
  CHECK(Progress::time_left(60, 1, 4) == ", about 3 min left");  // 180 s
  CHECK(Progress::time_left(3600, 1, 4) == ", about 3 h left");
}

TEST_CASE("nothing is shown before the time, with --quiet, or without a terminal") {
  if (!has_terminals()) return;
  CHECK_FALSE(contains(on_terminal({"verify", "ring-small"}, "1000").text, "\033[K"));
  CHECK_FALSE(contains(on_terminal({"verify", "ring-small", "--quiet"}, "0").text, "\033[K"));
  setenv("CPLAB_TEST_PROGRESS_AFTER_S", "0", 1);
  const ProgramResult piped = run_cplab({"verify", "ring-small"});
  unsetenv("CPLAB_TEST_PROGRESS_AFTER_S");
  CHECK(piped.err.empty());
}

TEST_CASE("the line is cut to the terminal's width, and talk and errors stand on lines of their own") {
  if (!has_terminals()) return;
  for (const std::string& line : live_lines(on_terminal({"verify", "packed"}, "0", 24).text)) {
    CAPTURE(line);
    CHECK(line.size() <= 23);
  }
  const Terminal note = on_terminal({"check", "ring-small", "--set", "hardware.gpu.sms=100"}, "0");
  CHECK(contains(note.text, "note: --set hardware.gpu.sms: not used by check"));
  const Terminal error = on_terminal({"check", some_scenario, "--set", "parallel.ranks=65536"}, "0");
  CHECK(error.code == 3);
  CHECK(contains(error.text, "\r\033[Kcplab: "));
}

TEST_CASE("simulator and executor count every operation") {
  const ScenarioFile file = [] {
    setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
    return read_scenario(some_scenario, {});
  }();
  const Plan plan = build_plan(file.scenario);
  const std::int64_t operations = operation_count(plan);
  std::int64_t last = 0, all = 0, calls = 0;
  const auto count = [&](std::int64_t done, std::int64_t of) {
    CHECK(done >= last);
    last = done;
    all = of;
    ++calls;
  };
  SimulateOptions options;
  options.progress = count;
  const Simulation with = simulate(plan, read_hardware(file.hardware), options);
  CHECK(last == operations);
  CHECK(all == operations);
  CHECK(with.time_s == simulate(plan, read_hardware(file.hardware)).time_s);

  const Plan small = build_plan(read_scenario("ring-small", {}).scenario);
  last = calls = 0;
  CpuOptions cpu;
  cpu.warmup = 1;
  cpu.iterations = 2;
  cpu.progress = count;
  (void)CpuExecutor(small, cpu).run();
  CHECK(last == 3 * operation_count(small));
  CHECK(all == last);
  CHECK(calls == last);
}
