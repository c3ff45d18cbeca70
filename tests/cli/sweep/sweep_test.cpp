// `cplab sweep`: the numbers are simulate's, what is illegal is counted, files of points go on and together.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/files/scenario_file.hpp"
#include "cli/sweep/study.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

// 2 x 3 x 2 points; of 12 heads, 8 ranks of all_to_all are none: heads are not a multiple of them.
constexpr const char* small_study = R"(
scenario = "ring-small"
[vary]
"problem.sequence" = ["1K", 2048]
"parallel.ranks" = [2, 4, 8]
[[vary.how]]
"parallel.algorithm" = "ring"
"parallel.placement" = "zigzag"
[[vary.how]]
"parallel.algorithm" = "all_to_all"
"parallel.placement" = "contiguous"
)";
const std::vector<std::string> small_sets{"--set", "problem.heads=12",
                                          "--set", "problem.kv_heads=12",
                                          "--set", "hardware.file=hardware/h100x8.toml"};

ProgramResult sweep(std::vector<std::string> arguments, bool with_sets = true) {
  arguments.insert(arguments.begin(), "sweep");
  if (with_sets) arguments.insert(arguments.end(), small_sets.begin(), small_sets.end());
  return run_cplab(arguments);
}

json json_in(const std::string& path) {
  return json::parse(read_file(path));
}

// The keys of a point that simulate has under the same name, and that are not about single ranks.
void check_as_simulated(const json& point, const std::vector<std::string>& arguments) {
  std::vector<std::string> words{"simulate"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  for (const auto& [key, value] : point.at("set").items())
    words.insert(words.end(),
                 {"--set", key + "=" + (value.is_string() ? value.get<std::string>() : value.dump())});
  const json simulated = json_of(words);
  for (const char* key : {"machine", "gpu", "placement_padding_tokens", "time_s", "low_s", "high_s", "chain",
                          "phases", "peak_bytes", "peak_rank", "capacity_bytes", "fixed_bytes", "fits",
                          "headroom_bytes", "messages", "host_syncs", "origins"}) {
    CAPTURE(key);
    CHECK(point.at(key) == simulated.at(key));  // to the bit
  }
  CHECK(point.at("algorithm") == simulated.at("scenario").at("parallel").at("algorithm"));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("every point has the numbers of simulate --set, and every illegal one is counted") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study), out = folder.path("out.json");
  const ProgramResult result = sweep({study, "--json", out, "--csv", folder.path("out.csv")});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json all = json_in(out);
  CHECK(all.at("schema") == "cplab.sweep.1");
  CHECK(all.at("study").at("points") == 12);
  REQUIRE(all.at("points").size() == 10);
  std::vector<std::string> base{"ring-small"};
  base.insert(base.end(), small_sets.begin(), small_sets.end());
  for (const json& point : all.at("points")) check_as_simulated(point, base);
  REQUIRE(all.at("refused").size() == 1);
  const json& refused = all.at("refused")[0];
  CHECK(refused.at("count") == 2);
  CHECK(contains(refused.at("reason"), "problem.heads: parallel.ranks (8) must divide heads (12)"));
  CHECK(refused.at("example").at("set").at("parallel.ranks") == 8);
  CHECK(refused.at("example").at("number") == 5);

  const std::vector<std::string> rows = lines_of(read_file(folder.path("out.csv")));
  REQUIRE(rows.size() == 11);
  CHECK(rows[0].starts_with("number,problem.sequence,parallel.ranks,parallel.algorithm,parallel.placement,"));
  CHECK(rows[1].starts_with("0,1024,2,ring,zigzag,ring,zigzag,"));  // "1K" as a number
}

TEST_CASE("points that differ in the machine or in [simulate] share plans and have simulate's numbers") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", R"(
scenario = "ring-small"
[vary]
"hardware.file" = ["hardware/h100x8.toml", "hardware/h200x4.toml"]
"simulate.cuda_graph" = [false, true]
"parallel.ranks" = [2, 4]
"hardware.gpu.sms" = {from = 100, to = 132, step = 32}
)");
  const std::string out = folder.path("out.json");
  REQUIRE(sweep({study, "--json", out, "--workers", "2"}, false).code == 0);
  const json all = json_in(out);
  REQUIRE(all.at("points").size() == 16);
  for (std::size_t i = 0; i < 16; i += 3) check_as_simulated(all.at("points")[i], {"ring-small"});
}

TEST_CASE("a scenario that stands in its study is simulated as the same file") {
  const TemporaryFolder folder;
  const std::string scenario =
      "problem = {sequence = 4096, heads = 8, head_size = 64, dtype = \"bf16\", mask = "
      "\"causal\"}\nparallel = {ranks = 4, algorithm = \"ring\"}\n"
      "hardware = {file = \"hardware/h100x8.toml\"}\n";
  std::string inside;
  for (const std::string& line : lines_of(scenario)) inside += "scenario." + line + "\n";
  const std::string file = folder.write("scenario.toml", scenario);
  const std::string study = folder.write("study.toml", inside + "vary.\"parallel.ranks\" = [2, 8]\n");
  const std::string out = folder.path("out.json");
  REQUIRE(sweep({study, "--json", out}, false).code == 0);
  for (const json& point : json_in(out).at("points")) check_as_simulated(point, {file});
  // And beside its study.
  const std::string beside =
      folder.write("beside.toml", "scenario = \"scenario.toml\"\nvary.\"parallel.ranks\" = [2, 8]\n");
  const std::string again = folder.path("again.json");
  REQUIRE(sweep({beside, "--json", again}, false).code == 0);
  CHECK(json_in(again).at("points") == json_in(out).at("points"));
}

TEST_CASE("the file of points is the same bytes with any number of processes") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  std::set<std::string> files;
  for (const char* workers : {"1", "2", "5"}) {
    const std::string lines = folder.path(std::string("lines") + workers);
    REQUIRE(sweep({study, "--jsonl", lines, "--workers", workers, "--quiet"}).code == 0);
    files.insert(read_file(lines));
  }
  CHECK(files.size() == 1);
  CHECK(lines_of(*files.begin()).size() == 13);
}

TEST_CASE("a file cut anywhere goes on to the same bytes, and a torn line is said") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  const std::string lines = folder.path("lines.jsonl");
  REQUIRE(sweep({study, "--jsonl", lines, "--quiet"}).code == 0);
  const std::string whole = read_file(lines);
  const std::size_t header = whole.find('\n') + 1, second = whole.find('\n', header) + 1;
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, header - 1, header, header + 7, second - 1,
                                  second, whole.size() / 2, whole.size() - 1, whole.size()}) {
    CAPTURE(bytes);
    folder.write("lines.jsonl", whole.substr(0, bytes));
    const ProgramResult result = sweep({study, "--jsonl", lines});
    CHECK(result.code == 0);
    CHECK(read_file(lines) == whole);
    const bool torn = bytes > 0 && whole[bytes - 1] != '\n';
    CHECK(contains(result.err, "was torn") == torn);
  }
  // Lines in another order, and one of them missing.
  const std::vector<std::string> all = lines_of(whole);
  std::string mixed = all[0] + "\n";
  for (std::size_t i = all.size() - 1; i > 0; --i)
    if (i != 4) mixed += all[i] + "\n";
  folder.write("lines.jsonl", mixed);
  REQUIRE(sweep({study, "--jsonl", lines, "--quiet"}).code == 0);
  CHECK(read_file(lines) == whole);
}

TEST_CASE("points that are there already are not simulated again") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  const std::string lines = folder.path("lines.jsonl");
  REQUIRE(sweep({study, "--jsonl", lines, "--quiet"}).code == 0);
  // A figure that no simulation would give stays, and so it was not simulated.
  std::string text = read_file(lines);
  const std::size_t at = text.find("\"messages\": ") + 12;
  text.insert(at, "77");
  folder.write("lines.jsonl", text);
  const std::string out = folder.path("out.json");
  REQUIRE(sweep({study, "--jsonl", lines, "--json", out, "--quiet"}).code == 0);
  CHECK(std::to_string(json_in(out).at("points")[0].at("messages").get<int>()).starts_with("77"));
}

TEST_CASE("a file of another study, version, machine or shard, or of something else, is left as it is") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  const std::string lines = folder.path("lines.jsonl");
  REQUIRE(sweep({study, "--jsonl", lines, "--quiet"}).code == 0);
  const std::string whole = read_file(lines);
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& why) {
    CAPTURE(why);
    const std::string before = read_file(lines);
    std::vector<std::string> words{"--jsonl", lines};
    words.insert(words.begin(), arguments.begin(), arguments.end());
    const ProgramResult result = sweep(words);
    CHECK(result.code == 2);
    CAPTURE(result.err);
    CHECK(contains(result.err, why));
    CHECK(read_file(lines) == before);
  };
  std::string other = small_study;
  other.replace(other.find("2048"), 4, "4096");
  refused({folder.write("other.toml", other)}, "the keys that vary, or their values, differ");
  refused({folder.write("where.toml", "where = \"1 == 1\"\n" + std::string(small_study))},
          "the constraints differ");
  refused({study, "--set", "problem.batch=1"}, "the changes of --set and --unset differ");
  refused({study, "--shard", "1/3"}, "it is of shard 1/1, this is shard 1/3");
  std::string version = whole;
  version.replace(version.find("\"cplab\": \"") + 10, 1, "9");
  folder.write("lines.jsonl", version);
  refused({study}, "made by cplab 9");
  std::string machine = whole;
  const std::size_t hash = machine.find("\"sha256\": \"") + 11;
  machine[hash] = machine[hash] == 'a' ? 'b' : 'a';
  folder.write("lines.jsonl", machine);
  refused({study}, "a file was hardware/h100x8.toml with sha256");
  folder.write("lines.jsonl", "a diary");
  refused({study}, "holds something else than points of a sweep");
  folder.write("lines.jsonl", "a diary\n");
  refused({study}, "line 1:");
  folder.write("lines.jsonl", "{\"schema\": \"cplab.check.1\"}\n");
  refused({study}, "is not the first line of points");
  std::string broken = whole;
  broken.replace(broken.find('\n') + 1, 1, "[");
  folder.write("lines.jsonl", broken);
  refused({study}, "line 2:");
  const std::size_t second = whole.find('\n') + 1;
  std::string twice = whole + whole.substr(second, whole.find('\n', second) + 1 - second);
  const std::size_t messages = twice.rfind("\"messages\": ") + 12;
  twice.insert(messages, "77");
  folder.write("lines.jsonl", twice);
  refused({study}, "point 0 is there twice, with other figures");
}

TEST_CASE("shards put together in any order are the whole, and what is missing is counted") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  const std::string whole = folder.path("whole.jsonl"), whole_json = folder.path("whole.json");
  REQUIRE(sweep({study, "--jsonl", whole, "--json", whole_json, "--quiet"}).code == 0);
  std::vector<std::string> shards;
  for (const char* shard : {"1/3", "2/3", "3/3"}) {
    shards.push_back(folder.path("shard" + std::string(shard, 1)));
    REQUIRE(sweep({study, "--jsonl", shards.back(), "--shard", shard, "--quiet"}).code == 0);
  }
  const std::string merged = folder.path("merged.jsonl"), merged_json = folder.path("merged.json");
  const auto merge = [&](const std::vector<std::string>& files) {
    std::vector<std::string> words{"sweep", "--merge"};
    words.insert(words.end(), files.begin(), files.end());
    words.insert(words.end(), {"--jsonl", merged, "--json", merged_json});
    return run_cplab(words);
  };
  REQUIRE(merge({shards[2], shards[0], shards[1], shards[0]}).code == 0);  // one of them twice
  CHECK(read_file(merged) == read_file(whole));
  for (const char* key : {"points", "refused", "fastest", "pareto", "study", "missing"})
    CHECK(json_in(merged_json).at(key) == json_in(whole_json).at(key));
  // What was merged can be gone on from.
  CHECK(sweep({study, "--jsonl", merged, "--quiet"}).code == 0);

  const ProgramResult part = merge({shards[2], shards[0]});
  CHECK(part.code == 0);
  CHECK(contains(part.err, "4 of 12 points are missing"));
  CHECK(json_in(merged_json).at("missing") == 4);
  CHECK(run_cplab({"sweep", "--merge", shards[0], "--strict"}).code == 1);

  std::string changed = read_file(shards[0]);
  changed.insert(changed.find("\"messages\": ") + 12, "77");
  const std::string before = read_file(merged);
  const ProgramResult conflict = merge({shards[0], folder.write("changed", changed)});
  CHECK(conflict.code == 1);
  CHECK(contains(conflict.err, "have other figures"));
  CHECK(read_file(merged) == before);

  std::string other = small_study;
  other.replace(other.find("2048"), 4, "4096");
  const std::string other_lines = folder.path("other.jsonl");
  REQUIRE(sweep({folder.write("other.toml", other), "--jsonl", other_lines, "--quiet"}).code == 0);
  const ProgramResult different = merge({shards[0], other_lines});
  CHECK(different.code == 2);
  CHECK(contains(different.err, "are of different sweeps: the keys that vary"));
  CHECK(run_cplab({"sweep", "--merge"}).code == 2);
  CHECK(run_cplab({"sweep", "--merge", shards[0], "--set", "problem.heads=1"}).code == 2);
}

TEST_CASE("the outputs that a study names are written, for a shard under its own name") {
  const TemporaryFolder folder;
  const std::string lines = folder.path("a.jsonl"), csv = folder.path("a.csv");
  const std::string study = folder.write("study.toml", std::string(small_study) + "[output]\njsonl = \"" +
                                                           lines + "\"\ncsv = \"" + csv + "\"\n");
  REQUIRE(sweep({study, "--shard", "0/2", "--quiet"}).code == 0);
  CHECK(lines_of(read_file(folder.path("a.0-of-2.jsonl"))).size() == 7);
  CHECK(std::filesystem::exists(folder.path("a.0-of-2.csv")));
  CHECK_FALSE(std::filesystem::exists(lines));
  REQUIRE(sweep({study, "--quiet", "--csv", folder.path("b.csv")}).code == 0);
  CHECK(lines_of(read_file(lines)).size() == 13);
  CHECK_FALSE(std::filesystem::exists(csv));
  CHECK(sweep({study, "--jsonl", csv, "--csv", csv}).code == 2);
  CHECK(sweep({study, "--jsonl", "-"}).code == 2);
  CHECK(sweep({study, "--jsonl", folder.path("nowhere/x.jsonl")}).code == 3);
}

TEST_CASE("exit codes: bad studies 2, --strict 1, all points refused for what does not vary 2") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  CHECK(run_cplab({"sweep"}).code == 2);
  CHECK(run_cplab({"sweep", "no-such-study"}).code == 2);
  CHECK(run_cplab({"sweep", study, study}).code == 2);
  CHECK(sweep({study, "--shard", "4/3"}).code == 2);
  CHECK(sweep({study, "--workers", "0"}).code == 2);
  CHECK(sweep({study, "--set", "parallel.ranks=4"}).code == 2);
  // The origins of these short calls are not all measured.
  CHECK(sweep({study, "--strict"}).code == 1);
  const ProgramResult none = sweep({study, "--set", "problem.dtype=bf17"});
  CHECK(none.code == 2);
  CHECK(contains(none.err, "every point is refused"));
  // Refused for what varies: an answer.
  const std::string odd =
      folder.write("odd.toml", "scenario = \"ring-small\"\nvary.\"parallel.ranks\" = [0, 99]\n");
  const std::string out = folder.path("odd.json");
  CHECK(sweep({odd, "--json", out}).code == 0);
  CHECK(json_in(out).at("points").empty());
  const json refused = json_in(out).at("refused");
  std::int64_t count = 0;
  for (const json& group : refused) count += group.at("count").get<std::int64_t>();
  CHECK(count == 2);
}

TEST_CASE("refused values come with the nearest legal one where the message has it") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", R"(
scenario = "ring-small"
[vary]
"problem.kv_heads" = [5]
"schedule.kv_slots" = [2]
)");
  const std::string out = folder.path("out.json");
  REQUIRE(sweep({study, "--json", out, "--set", "problem.heads=16"}, false).code == 0);
  const json refused = json_in(out).at("refused");
  REQUIRE(refused.size() == 1);
  CHECK(contains(refused[0].at("reason"), "problem.kv_heads: must divide heads = 16, but is 5"));
  CHECK(refused[0].at("nearest") == "4");
}

TEST_CASE("points that do not fit in this machine's memory are refused, and done where there is more") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", R"(
scenario = "ring-64"
[vary]
"parallel.ranks" = [2, 200]
)");
  const std::string lines = folder.path("lines.jsonl"), out = folder.path("out.json");
  // What this process has, and a plan of two ranks beside it; that of 200 takes about 90 MiB.
  std::int64_t all_pages = 0, resident_pages = 0;
  std::ifstream("/proc/self/statm") >> all_pages >> resident_pages;
  const std::string little = std::to_string(resident_pages * sysconf(_SC_PAGESIZE) / 1048576 + 40) + "M";
  setenv("CPLAB_MEMORY", little.c_str(), 1);
  const ProgramResult result = sweep({study, "--jsonl", lines, "--json", out}, false);
  unsetenv("CPLAB_MEMORY");
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  const json refused = json_in(out).at("refused");
  REQUIRE(refused.size() == 1);
  CHECK(refused[0].at("kind") == "memory");
  CHECK(contains(refused[0].at("reason"), "parallel.ranks: the plan of 200 ranks"));
  CHECK(json_in(out).at("points").size() == 1);
  REQUIRE(sweep({study, "--jsonl", lines, "--json", out}, false).code == 0);
  CHECK(json_in(out).at("refused").empty());
  CHECK(json_in(out).at("points").size() == 2);
  CHECK(lines_of(read_file(lines)).size() == 3);
}

TEST_CASE("the summary keeps to the page and names the fastest") {
  const TemporaryFolder folder;
  const std::string study = folder.write("study.toml", small_study);
  const ProgramResult result = sweep({study});
  REQUIRE(result.code == 0);
  for (const std::string& line : lines_of(result.out)) CHECK(line.size() <= 100);
  CHECK(contains(result.out, "fastest of each problem"));
  CHECK(contains(result.out, "front of time against memory"));
  CHECK(contains(result.out, "refused:"));
}

TEST_CASE("shipped studies are read, and none of their points is illegal for a misspelt key") {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  const std::vector<std::string> names = cplab::scenario_names("studies");
  CHECK(!names.empty());
  CHECK(json_of({"list", "studies"}).at("studies").size() == names.size());
  for (const std::string& name : names) {
    CAPTURE(name);
    const cplab::Study study = cplab::read_study(name);
    const cplab::StudyPoints points(study, {});
    REQUIRE(points.size() > 0);
    CHECK_NOTHROW((void)study.read(points.changes(0)));
  }
}
