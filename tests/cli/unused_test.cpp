// An input that a command does not use is said so, on stderr and (of scenarios) in the notes of the result.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/arguments.hpp"
#include "cli/files/toml_table.hpp"
#include "cli/session.hpp"
#include "cli/verify/npy.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using nlohmann::json;

using cplab::testing::contains;

namespace {

ProgramResult fine(const std::vector<std::string>& arguments) {
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(arguments);
  CAPTURE(result.err);
  CHECK(result.code == 0);
  return result;
}

}  // namespace

TEST_CASE("options that a command takes and does not use") {
  struct Case {
    std::vector<std::string> arguments;
    std::string said;  // empty: all is used
  };
  const TemporaryFolder folder;
  for (const Case& c :
       {Case{{"check", "ring-small", "--seed", "2"}, "--seed: not used by check"},
        Case{{"simulate", some_scenario, "--seed", "2"}, "--seed: not used by simulate"},
        Case{{"show", "ring-small", "--seed", "2"}, "--seed: not used by show"},
        Case{{"list", "faults", "--seed", "2"}, "--seed: not used by list"},
        Case{{"list", "faults", "--set", "problem.heads=2"}, "--set: not used by list"},
        Case{{"check", "ring-small", "--trace", folder.path("traces")}, "--trace: check has no timeline"},
        Case{{"simulate", some_scenario, "--operations"}, "--operations: not used without --json"},
        Case{{"run", "ring-small", "--device", "cpu", "--operations"},
             "--operations: not used without --json"},
        Case{{"verify", "ring-small", "--set", "hardware.gpu.sms=100"},
             "--set hardware.gpu.sms: not used by verify"},
        Case{{"run", "ring-small", "--device", "cpu", "--set", "hardware.file=h200x4"},
             "--set hardware.file: not used by run"},
        Case{{"run", "ring-small", "--device", "cpu", "--hardware", "h200x4"}, "--hardware: not used by run"},
        Case{{"verify", "ring-small", "--set", "simulate.cuda_graph=true"},
             "--set simulate.*: not used by verify"},
        Case{{"reproduce", "te-p2p-memory", "--set", "hardware.gpu.sms=100"},
             "--set hardware.gpu.sms=100: not used by reproduce te-p2p-memory"},
        Case{{"simulate", some_scenario, "--set", "simulate.collective_model=stepwise"},
             "the plan has no collectives"},
        Case{{"run", "ring-small", "--device", "cpu", "--set", "schedule.transport=copy"},
             "--set schedule.transport: not used by the execution on a CPU"},
        Case{{"check", "ring-small", "--set", "problem.format=sbhd"},
             "problem.format = \"sbhd\" changes nothing"},
        Case{{"verify", "ring-small", "--seed", "2"}, ""},
        Case{{"run", "ring-small", "--device", "cpu", "--seed", "2"}, ""},
        Case{
            {"simulate", some_scenario, "--set", "hardware.gpu.sms=100", "--set", "simulate.cuda_graph=true"},
            "h100x8: attention is timed by the kernels of cuDNN"},
        Case{{"show", some_scenario, "--set", "hardware.gpu.sms=100"},
             "h100x8: attention is timed by the kernels of cuDNN"}}) {
    const ProgramResult result = fine(c.arguments);
    CAPTURE(c.arguments.front());
    if (c.said.empty()) {
      CHECK(result.err.empty());
    } else {
      CHECK(result.err.find("note: ") == 0);
      CHECK(contains(result.err, c.said));
    }
    auto quiet = c.arguments;
    quiet.emplace_back("--quiet");
    CHECK(run_cplab(quiet).err.empty());
  }
}

TEST_CASE("a machine that a command does not use is still read: wrong is wrong") {
  const ProgramResult wrong = run_cplab({"verify", "ring-small", "--set", "hardware.gpu.smz=100"});
  CHECK(wrong.code == 2);
  CHECK(contains(wrong.err, "--set hardware.gpu.smz: unknown key"));
}

TEST_CASE("a section of the file that is not used, and notes in the result") {
  const TemporaryFolder folder;
  const std::string file = folder.write(
      "s.toml", read_file(CPLAB_TEST_SCENARIOS "/ring-small.toml") + "\n[simulate]\ncuda_graph = true\n");
  for (const char* command : {"check", "verify"}) {
    const ProgramResult result = fine({command, file, "--json", "-"});
    const json notes = json::parse(result.out).at("notes");
    // check says what reuse costs.
    REQUIRE(notes.size() == (std::string(command) == "check" ? 3 : 1));
    CHECK(notes[0] == "[simulate] of " + file + ": not used by " + command +
                          ", which has no clock to set; simulate and show do");
  }
  const json used = json::parse(fine({"simulate", file, "--json", "-"}).out).at("notes");
  REQUIRE(used.size() == 2);  // of the machine, and of heads that are padded
  CHECK(contains(used[0].get<std::string>(), "h100x8: attention is timed by the kernels of cuDNN"));
}

TEST_CASE("files of --inputs that are not read") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path("in"));
  const auto write = [&](const char* name, std::int64_t heads, std::int64_t width) {
    const std::vector<double> values(static_cast<std::size_t>(2 * 203 * heads * width), 0.25);
    folder.write(std::string("in/") + name,
                 cplab::format_npy(std::vector<std::int64_t>{2, 203, heads, width}, values, false));
  };
  write("q.npy", 4, 16);
  write("k.npy", 2, 16);
  write("v.npy", 2, 24);
  write("dout.npy", 4, 24);
  const std::vector<std::string> arguments{"verify", "ring-small", "--inputs", folder.path("in")};
  CHECK(fine(arguments).err.empty());
  write("bias.npy", 4, 24);
  folder.write("in/readme.txt", "no tensor");
  CHECK(contains(fine(arguments).err, "note: --inputs: not read: bias.npy\n"));
  auto forward = arguments;
  forward.insert(forward.end(), {"--set", "problem.direction=forward"});
  CHECK(contains(fine(forward).err, "not read: bias.npy, dout.npy (the direction is forward)\n"));
  auto seeded = arguments;
  seeded.insert(seeded.end(), {"--seed", "3"});
  CHECK(contains(fine(seeded).err, "note: --seed: not used beside --inputs"));
}

TEST_CASE("show, check, verify and run need no tables and no machine") {
  const TemporaryFolder folder;
  std::string text = read_file(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml");
  const std::string no_tables = text.substr(0, text.find("\n[[kernel]]") + 1);
  for (const std::string& machine : {no_tables, std::string()}) {
    std::vector<std::string> sets;
    std::string scenario = "ring-small";
    if (machine.empty()) {
      const std::string whole = read_file(CPLAB_TEST_SCENARIOS "/ring-small.toml");
      scenario = folder.write("none.toml", whole.substr(0, whole.find("[hardware]")));
    } else {
      sets = {"--set", "hardware.file=" + folder.write("machine.toml", machine)};
    }
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"show"}, {"check"}, {"verify"}, {"run", "--device", "cpu"}}) {
      auto arguments = command;
      arguments.insert(arguments.begin() + 1, scenario);
      arguments.insert(arguments.end(), sets.begin(), sets.end());
      const ProgramResult result = fine(arguments);
      if (command.front() != "show") continue;
      CHECK(contains(result.out, "Bytes and FLOPs only, not what binds: "));
      CHECK(contains(result.out, machine.empty() ? "no [hardware] in the scenario" : "there is none"));
    }
    std::vector<std::string> simulate{"simulate", scenario};
    simulate.insert(simulate.end(), sets.begin(), sets.end());
    CHECK(run_cplab(simulate).code == 2);
  }
  // Kernels that no table times have a model, all of it assumed.
  const std::string no_kernels = folder.write("k.toml", no_tables + text.substr(text.find("[[message]]\n")));
  const ProgramResult assumed = fine({"simulate", "ring-small", "--set", "hardware.file=" + no_kernels,
                                      "--set", "problem.head_size=12", "--set", "problem.value_size=20"});
  CHECK(contains(assumed.out, "of the busy time: assumed 100.0 %"));
  // A machine that is too small, or wrong.
  CHECK(contains(fine({"show", some_scenario, "--set", "parallel.ranks=16"}).out, "16 ranks need 2 nodes"));
  CHECK(run_cplab({"show", some_scenario, "--set", "hardware.gpu.smz=1"}).code == 2);
}

TEST_CASE("a rate that is set for an execution takes effect or is refused") {
  for (const char* command : {"run", "verify"}) {
    const ProgramResult result =
        run_cplab({command, "ring-small", "--device", "cpu", "--set", "hardware.rates.fill_us=3"});
    CHECK(result.code == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err, "--set hardware.rates.fill_us"));
    CHECK(contains(result.err, "the CPU has none to choose; legal with --device gpu and --hardware NAME"));
  }
  // On a GPU, of which nothing is asked yet: without a machine to change, and with one.
  const auto notes = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"ring-small", "--set", "hardware.rates.fill_us=3"};
    words.insert(words.end(), more.begin(), more.end());
    const std::vector<cplab::OptionSpec> options{{"set", "KEY=VALUE", "", true}, {"hardware", "FILE", ""}};
    return cplab::scenario_of(cplab::Arguments(words, options, 1), "run", {.executes = true, .rates = true})
        .notes;
  };
  CHECK_THROWS_WITH_AS(notes({}),
                       doctest::Contains("of the machine that --hardware NAME names, and there is none"),
                       cplab::InputError);
  for (const std::string& note : notes({"--hardware", "h200x4"})) CHECK_FALSE(contains(note, "rates"));
}
