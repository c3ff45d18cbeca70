// Commands run for a caller in the same process: texts in place of files, and an end that the caller wishes.
#include <doctest/doctest.h>

#include <sstream>
#include <string>
#include <vector>

#include "cli/program.hpp"
#include "tests/cli/program.hpp"

namespace cplab {
namespace {

ProgramResult run_for(const Caller& caller, const std::vector<std::string>& arguments) {
  std::vector<const char*> argv{"cplab"};
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  std::ostringstream out, err;
  ProgramResult result;
  result.code = run_program(static_cast<int>(argv.size()), argv.data(), out, err, &caller);
  result.out = out.str();
  result.err = err.str();
  return result;
}

std::string scenario_text(const std::string& heads) {
  return "[problem]\nsequence = 96\nheads = " + heads +
         "\nhead_size = 16\ndtype = \"fp32\"\nmask = \"causal\"\n"
         "[parallel]\nranks = 4\nalgorithm = \"ring\"\n[hardware]\nfile = \"<machine>\"\n";
}

TEST_CASE("caller: a text stands for a scenario, a machine and a result") {
  const TemporaryFolder folder;
  const std::string machine = "include = \"h100x8\"\n[gpu]\ncapacity_bytes = 12345678901\n";
  const std::string hardware = folder.write("machine.toml", machine);
  Caller caller;
  caller.texts = {{"<scenario>", scenario_text("4")}, {"<machine>", machine}};
  const ProgramResult text = run_for(caller, {"simulate", "<scenario>", "--csv", "-", "--quiet"});
  const ProgramResult file = run_cplab({"simulate", folder.write("scenario.toml", scenario_text("4")),
                                        "--hardware", hardware, "--csv", "-", "--quiet"});
  CHECK(text.code == 0);
  CHECK(text.err == file.err);
  CHECK(text.out == file.out);

  caller.texts["<result>"] =
      run_for(caller, {"simulate", "<scenario>", "--operations", "--json", "-", "--quiet"}).out;
  CHECK(run_for(caller, {"compare", "<result>", "<result>", "--csv", "-"}).code == 0);
  caller.texts["<study>"] = "scenario = \"<scenario>\"\n[vary]\n\"parallel.ranks\" = [2, 4]\n";
  CHECK(run_for(caller, {"sweep", "<study>", "--csv", "-", "--quiet"}).code == 0);
  // Afterwards there is no such text any more.
  CHECK(run_cplab({"simulate", "<scenario>"}).code == 2);
}

TEST_CASE("caller: an error names the text and its line") {
  Caller caller;
  caller.texts = {{"<scenario>", scenario_text("\"many\"")}};
  const ProgramResult wrong = run_for(caller, {"check", "<scenario>"});
  CHECK(wrong.code == 2);
  CHECK(wrong.err.starts_with("cplab: <scenario>:3: problem.heads: "));
}

TEST_CASE("caller: a command that is not wanted any more ends, even where it says nothing") {
  for (const std::vector<std::string>& command : std::vector<std::vector<std::string>>{
           {"simulate", "ring"},
           {"simulate", "ring", "--set", "simulate.engine=simgrid"},
           {"check", "ring"},
           {"show", "ring"},
           {"verify", "ring-small"},
           {"run", "ring-small", "--device", "cpu"},
           {"sweep", "degrees"},
           {"advise", "--model", "llama3-8b", "--gpus", "8", "--sequence", "32K", "--hardware", "h100x8"}}) {
    CAPTURE(command);
    Caller caller;
    caller.stop = true;
    std::vector<std::string> words = command;
    words.emplace_back("--quiet");
    const ProgramResult ended = run_for(caller, words);
    CHECK(ended.code == 130);
    CHECK(ended.err == "cplab: stopped by the caller\n");
    CHECK(ended.out == "");
  }
}

}  // namespace
}  // namespace cplab
