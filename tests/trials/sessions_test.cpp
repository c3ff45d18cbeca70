// Commands: what they read, repeat, print on several pages of a result.
#include <doctest/doctest.h>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cli/files/sha256.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

// The program with `text` on its standard input.
ProgramResult with_input(const std::string& text, const std::vector<std::string>& arguments) {
  const TemporaryFolder folder;
  const std::string path = folder.write("stdin", text);
  const int kept = ::dup(STDIN_FILENO), file = ::open(path.c_str(), O_RDONLY);
  REQUIRE(kept >= 0);
  REQUIRE(::dup2(file, STDIN_FILENO) >= 0);
  ::close(file);
  const ProgramResult result = run_cplab(arguments);
  ::dup2(kept, STDIN_FILENO);
  ::close(kept);
  return result;
}

std::string plan_text() {
  return run_cplab({"show", "ring-small", "--json", "-"}).out;
}

}  // namespace

TEST_CASE(
    "--set problem.lengths replaces batch and sequence, --set problem.sequence replaces lengths, and notes "
    "say so") {
  const json packed = json_of({"check", "ring-small", "--set", "problem.lengths=[300, 5, 0, 77]"});
  CHECK(packed["scenario"]["problem"]["lengths"] == json::array({300, 5, 0, 77}));
  CHECK_FALSE(packed["scenario"]["problem"].contains("sequence"));
  CHECK(contains(packed["notes"].dump(), "--set problem.lengths: replaces the file's"));
  CHECK(contains(packed["notes"].dump(), "problem.sequence"));

  const json dense =
      json_of({"check", "packed", "--set", "problem.sequence=512", "--set", "problem.batch=2"});
  CHECK(dense["scenario"]["problem"]["sequence"] == 512);
  CHECK(dense["scenario"]["problem"]["batch"] == 2);
  CHECK(contains(dense["notes"].dump(), "--set problem.sequence: replaces the file's"));

  // A list of another count takes padded_lengths with it; what contradicts itself on the command line is an
  // error.
  CHECK(json_of({"check", "packed", "--set", "problem.lengths=[64]"})["ok"] == true);
  const ProgramResult both =
      run_cplab({"check", "packed", "--set", "problem.sequence=512", "--set", "problem.lengths=[64]"});
  CHECK(both.code == 2);
  CHECK(contains(both.err, "goes without lengths"));
}

TEST_CASE("--unset takes a key of the file away") {
  const json plain = json_of({"check", trial("window.toml")});
  const json without =
      json_of({"check", trial("window.toml"), "--unset", "problem.window", "--unset", "schedule.merge"});
  CHECK(plain["scenario"]["problem"]["window"] == json::array({100, 0}));
  CHECK(without["scenario"]["problem"]["window"] == json::array({-1, -1}));
  CHECK(without["scenario"]["schedule"]["merge"] != plain["scenario"]["schedule"]["merge"]);
  CHECK(json_of({"check", trial("window.toml"), "--unset", "simulate"})["ok"] == true);  // a whole section
  // Whatever order they come in, --set is of the file without the key.
  CHECK(json_of({"check", trial("window.toml"), "--set", "problem.window=[3, 0]", "--unset",
                 "problem.window"})["scenario"]["problem"]["window"] == json::array({3, 0}));

  for (const auto& [key, words] :
       std::vector<std::pair<std::string, std::string>>{{"problem.slopes", "the file does not set it"},
                                                        {"problem.sequense", "did you mean \"sequence\"?"},
                                                        {"schedule.mergee", "did you mean \"merge\"?"},
                                                        {"probem.window", "did you mean \"problem\"?"},
                                                        {"hardwar.gpu.sms", "did you mean \"hardware\"?"},
                                                        {"problem.window=3", "names a key alone"},
                                                        {"problem.heads", "heads: missing"}}) {
    const ProgramResult result = run_cplab({"check", trial("window.toml"), "--unset", key});
    CAPTURE(key);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, "--unset " + key));
    CHECK(contains(result.err, words));
  }
}

TEST_CASE("a plan is read wherever a scenario is, from a file or standard input") {
  const TemporaryFolder folder;
  const std::string text = plan_text(), plan = folder.write("plan.json", text);
  const std::string right = run_cplab({"check", "ring-small", "--csv", "-"}).out;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{plan}, {"--plan", plan}, {"-"}, {"--plan", "-"}}) {
    std::vector<std::string> arguments{"check", "--csv", "-"};
    arguments.insert(arguments.end(), words.begin(), words.end());
    const ProgramResult result = with_input(text, arguments);
    CAPTURE(words);
    CAPTURE(result.err);
    CHECK(result.code == 0);
    CHECK(result.out == right);
  }
  // A scenario is read from standard input too, by any command.
  const std::string scenario = read_file(CPLAB_TEST_SCENARIOS "/ring-small.toml");
  CHECK(with_input(scenario, {"check", "-", "--csv", "-"}).out == right);
  CHECK(json_of({"simulate", "ring-small"})["time_s"] ==
        json::parse(with_input(scenario, {"simulate", "-", "--json", "-"}).out)["time_s"]);

  for (const char* command : {"show", "verify", "simulate"})
    CHECK(run_cplab({command, "--plan", plan}).code == 0);
  CHECK(run_cplab({"run", "--plan", plan, "--device", "cpu"}).code == 0);

  const ProgramResult no_plan = run_cplab({"check", "--plan", CPLAB_TEST_SCENARIOS "/ring-small.toml"});
  CHECK(no_plan.code == 2);
  CHECK(contains(no_plan.err, "a scenario is named without --plan"));
  const ProgramResult changed = run_cplab({"simulate", plan, "--set", "problem.heads=8"});
  CHECK(changed.code == 2);
  CHECK(contains(changed.err, "legal beside it: --set of simulate.* and hardware.*"));
}

TEST_CASE("an edited plan is simulated, on the machine that --set names or its own") {
  const TemporaryFolder folder;
  const std::string plan = folder.write("plan.json", plan_text());
  const json whole = json_of({"simulate", "--plan", plan});
  CHECK(whole["time_s"] == json_of({"simulate", "ring-small"})["time_s"]);
  CHECK(whole["given"]["files"][0]["option"] == "plan");
  CHECK(json_of({"simulate", "--plan", plan, "--set", "hardware.file=h200x4"})["time_s"] ==
        json_of({"simulate", "ring-small", "--set", "hardware.file=h200x4"})["time_s"]);

  json edited = json::parse(plan_text());
  edited["scenario"]["hardware"]["file"] = "hardware/nowhere.toml";
  const std::string moved = folder.write("moved.json", edited.dump());
  CHECK(run_cplab({"check", moved}).code == 0);  // which needs no machine
  CHECK(run_cplab({"simulate", moved}).code == 2);
  CHECK(run_cplab({"simulate", moved, "--set", "hardware.file=h100x8"}).code == 0);
}

TEST_CASE("a plan that refers to nothing is refused by who does not check it") {
  const TemporaryFolder folder;
  json broken = json::parse(plan_text());
  for (json& operation : broken["ranks"][1]["operations"])
    if (operation["kind"] == "attend") operation["reads"][0]["box"]["heads"] = json::array({0, 40});
  const std::string file = folder.write("broken.json", broken.dump());
  CHECK(run_cplab({"check", file}).code == 1);
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"simulate", file}, {"show", file}, {"run", file, "--device", "cpu"}}) {
    const ProgramResult result = run_cplab(command);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, "attend 1/forward/"));
    CHECK(contains(result.err, "cplab check names all that is wrong with it"));
  }
}

TEST_CASE("--rerun repeats a result to the byte, or says which file or version differs") {
  const TemporaryFolder folder;
  const std::string machine =
      folder.write("machine.toml", read_file(CPLAB_TEST_SCENARIOS "/hardware/h100x8.toml"));
  const std::string first = folder.path("first.json"), second = folder.path("second.json");
  const std::vector<std::vector<std::string>> calls{
      {"ring-small", "--operations", "--set", "hardware.file=" + machine, "--set", "hardware.gpu.sms=100",
       "--set", "simulate.collective_model=stepwise", "--set", "hardware.node.link_bytes_s=300e9", "--unset",
       "problem.value_size"},
      {"packed", "--set", "problem.lengths=[400, 50, 7]", "--set", "hardware.file=h100x8", "--set",
       "parallel.algorithm=ring"},
      {"families-8", "--set", "schedule.kv_slots=3", "--set", "problem.dtype=fp16", "--choose", "heuristic"},
      {"linear-scan"},
      {"--plan", folder.write("plan.json", plan_text()), "--set", "hardware.gpu.sms=90"}};
  for (std::vector<std::string> call : calls) {
    CAPTURE(call);
    call.insert(call.begin(), "simulate");
    call.insert(call.end(), {"--json", first});
    const ProgramResult made = run_cplab(call);
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    const ProgramResult again = run_cplab({"simulate", "--rerun", first, "--json", second});
    CAPTURE(again.err);
    CHECK(again.code == 0);
    CHECK(again.out == made.out);
    CHECK(read_file(first) == read_file(second));
  }

  REQUIRE(run_cplab({"simulate", "ring-small", "--set", "hardware.file=" + machine, "--json", first}).code ==
          0);
  json other = json::parse(read_file(first));
  other["versions"]["cplab"] = "0.0.9";
  const ProgramResult version = run_cplab({"simulate", "--rerun", folder.write("other.json", other.dump())});
  CHECK(version.code == 3);
  CHECK(contains(version.err, "was made by "));
  CHECK(contains(version.err, "cplab 0.0.9"));
  folder.write("machine.toml", read_file(machine) + "# changed\n");
  const ProgramResult hash = run_cplab({"simulate", "--rerun", first});
  CHECK(hash.code == 2);
  CHECK(contains(hash.err, "the hardware file " + machine + " held sha256 "));
  CHECK(contains(hash.err, "--anyway"));
  const json anyway = json_of({"simulate", "--rerun", first, "--anyway"});
  CHECK(contains(anyway["notes"].dump(), "--anyway: the hardware file"));
  CHECK(anyway["time_s"] == json::parse(read_file(first))["time_s"]);
  CHECK(run_cplab({"simulate", "--rerun", first, "--set", "problem.heads=2"}).code == 2);
}

TEST_CASE("every answer says version, commit, machine with its hash, overrides and scenario") {
  const TemporaryFolder folder;
  const std::string plan = folder.path("plan.json");
  const std::vector<std::string> set{"--set", "problem.sequence=256", "--unset", "problem.value_size"};
  std::map<std::string, json> answers;
  for (const std::vector<std::string>& words :
       std::vector<std::vector<std::string>>{{"simulate", "ring-small"},
                                             {"check", "ring-small"},
                                             {"verify", "ring-small"},
                                             {"show", "ring-small"},
                                             {"run", "ring-small", "--device", "cpu", "--operations"}}) {
    std::vector<std::string> arguments = words;
    arguments.insert(arguments.end(), set.begin(), set.end());
    answers[words.front()] = json_of(arguments);
  }
  for (const auto& [command, answer] : answers) {
    CAPTURE(command);
    CHECK(answer["versions"].contains("cplab"));
    CHECK(answer["versions"].contains("commit"));
    CHECK(answer["scenario"]["problem"]["sequence"] == 256);
    CHECK(answer["given"]["scenario"] == "ring-small");
    CHECK(answer["given"]["set"] == json::array({"problem.sequence=256"}));
    CHECK(answer["given"]["unset"] == json::array({"problem.value_size"}));
    const json& machine = answer["given"]["files"].back();
    CHECK(machine["option"] == "hardware");
    CHECK(machine["file"] == "hardware/h100x8.toml");
    CHECK(machine["sha256"].get<std::string>().size() == 64);
  }
  const json reproduced = json_of({"reproduce", "te-p2p-memory"});
  CHECK(reproduced["given"]["scenario"] == "published/te-p2p-memory.toml");
  folder.write("a.json", run_cplab({"simulate", "ring-small", "--operations", "--json", "-"}).out);
  const json compared = json_of({"compare", folder.path("a.json"), folder.path("a.json")});
  CHECK(compared["predicted"]["given"]["files"].back()["option"] == "hardware");
  CHECK(compared["measured"]["versions"].contains("commit"));
}

TEST_CASE("SHA-256 as FIPS 180-4 has it") {
  CHECK(cplab::sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(cplab::sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(cplab::sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(cplab::sha256(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("--algorithms: one problem under all that take it, the fastest first") {
  const json all = json_of({"simulate", "families-8", "--algorithms", "all", "--set", "problem.sequence=8K"});
  CHECK(all["schema"] == "cplab.algorithms.1");
  std::set<std::string> names;
  double before_s = 0;
  const double high_s = all["rows"][0]["high_s"];
  for (const json& row : all["rows"]) {
    names.insert(row["algorithm"]);
    CHECK(row["time_s"].get<double>() >= before_s);
    CHECK(row["may_be_fastest"] == (row["low_s"].get<double>() <= high_s));
    before_s = row["time_s"];
    // The row is what simulate says of it.
    if (row["algorithm"] != "usp" || row["placement"] != "zigzag") continue;
    std::vector<std::string> one{"simulate", "families-8",
                                 "--set",    "problem.sequence=8K",
                                 "--set",    "parallel.algorithm=usp",
                                 "--set",    "parallel.placement=zigzag"};
    for (const auto& [key, value] : row["options"].items())
      one.insert(one.end(), {"--set", "schedule." + key + "=" + value.get<std::string>()});
    CHECK(json_of(one)["time_s"] == row["time_s"]);
  }
  CHECK(names == std::set<std::string>{"ring", "all_gather", "head_strided", "all_to_all", "hierarchical",
                                       "usp", "double_ring", "bidirectional", "pass_q", "mesh", "tree",
                                       "helix"});
  for (const json& row : all["refused"]) CHECK_FALSE(contains(row["reason"], "--set parallel"));

  const json two = json_of({"simulate", "families-8", "--algorithms", "ring,ulysses", "--set",
                            "problem.sequence=8K", "--set", "parallel.placement=zigzag"});
  CHECK(two["rows"].size() == 2);
  CHECK(run_cplab({"simulate", "families-8", "--algorithms", "rign"}).code == 2);
  CHECK(
      run_cplab({"simulate", "families-8", "--algorithms", "all", "--set", "parallel.algorithm=ring"}).code ==
      2);
}

TEST_CASE("--trace FILE.json holds both ends of every arrow, and slices of one track are disjoint") {
  const TemporaryFolder folder;
  const std::string file = folder.path("all.json");
  REQUIRE(run_cplab({"simulate", "ring", "--set", "problem.sequence=16K", "--trace", file}).code == 0);
  std::map<int, std::pair<int, int>> ends;
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  const json trace = json::parse(read_file(file));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "s") ++ends[event["id"]].first;
    if (event["ph"] == "f") ++ends[event["id"]].second;
    if (event["ph"] != "X") continue;
    const double start = event["ts"], duration = event["dur"];
    tracks[{event["pid"], event["tid"]}].emplace_back(start, start + duration);
  }
  CHECK(ends.size() == 168);
  for (const auto& [id, counts] : ends) CHECK(counts == std::pair(1, 1));
  for (const auto& [track, slices] : tracks)
    for (std::size_t i = 1; i < slices.size(); ++i) CHECK(slices[i].first >= slices[i - 1].second - 1e-6);

  REQUIRE(
      run_cplab({"simulate", "ring", "--set", "problem.sequence=16K", "--trace", folder.path("each")}).code ==
      0);
  CHECK(std::filesystem::exists(folder.path("each/rank7_trace.json")));
}
