// What is printed: defaults, hints, widths, tables.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/vocabulary.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// Words of what is no key of a scenario, and what is said of them: a part of the hint, or "" for none.
const std::vector<std::pair<std::string, std::string>>& foreign_keys() {
  static const std::vector<std::pair<std::string, std::string>> words{
      {"dropout", "there is no dropout"},
      {"attn_dropout", "there is no dropout"},
      {"layers", "one attention call"},
      {"num_hidden_layers", "one attention call"},
      {"hidden_size", "one attention call"},
      {"tp", "one tensor-parallel rank"},
      {"pp", "does not change"},
      {"ep", "does not change"},
      {"fsdp", "does not change"},
      {"lr", "no training step"},
      {"optimizer", "no training step"},
      {"rope_theta", "before attention"},
      {"q_offset", "positions begin at 0"},
      {"position_ids", "positions begin at 0"},
      {"kv_cache", "kv_sequence"},
      {"alibi_slopes", "did you mean slopes, of problem.bias = \"alibi\""},
      {"s_aux", "did you mean sink = \"head\""},
      {"sink_tokens", "not in this version"},
      {"relative_attention_num_buckets", "did you mean \"buckets\""},
      {"attn_bias", "did you mean bias = \"full\""},
      {"logit_cap", "did you mean \"softcap\""},
      {"kv_lora_rank", "did you mean \"kv_latent\"?"},
      {"q_lora_rank", "head_size = 192"},
      {"prefix_lm", "did you mean \"prefix\""},
      {"q_ranges", "mask_rectangles"},
      {"attn_type_map", "mask_rectangles"},
      {"attention_chunk_size", "did you mean \"chunk\""},
      {"straggler", "did you mean \"simulate.slow\""},
      {"slow_rank", "did you mean \"simulate.slow\""},
      {"efficiency", "measured tables"},
      {"price", "no price"},
      {"return_lse", "always results"},
      {"seed", "did you mean \"simulate.seed\""},
      {"verbose", "--quiet"},
      {"head", "did you mean \"heads\""},
      {"num_heads", "did you mean \"heads\""},
      {"hedas", "did you mean \"heads\""},
      {"haeds", "did you mean \"heads\""},
      {"batchh", "did you mean \"batch\""},
      {"sequense", "did you mean \"sequence\""},
      {"sequnce", "did you mean \"sequence\""},
      {"head_szie", "did you mean \"head_size\""},
      {"headsize", "did you mean \"head_size\""},
      {"Window", "did you mean \"window\""},
      {"kv-heads", "did you mean \"kv_heads\""},
      {"purple", ""},
      {"gizmo", ""},
      {"banana", ""},
      {"reduce", ""},
      {"stage", ""},
      {"scope", ""},
      {"cutoff", ""},
      {"tensor", ""},
      {"colour", ""},
      {"temperature", ""},
      {"top_p", ""},
      {"loss", ""},
      {"stride", ""},
      {"dilation", ""},
      {"host", ""},
      {"port", ""},
      {"name", ""},
      {"title", ""},
      {"version", ""},
      {"x", ""},
      {"zz", ""},
      {"mesh_shape", ""},
  };
  return words;
}

}  // namespace

TEST_CASE("a default printed as a constant is what is taken, in every scenario that is shipped") {
  using namespace cplab;
  std::set<std::string> varied;
  int tried = 0;
  for (const std::string& name : scenario_names("")) {
    for (const Algorithm& algorithm : algorithms()) {
      for (const std::int64_t ranks : {2, 8}) {
        Scenario scenario;
        try {
          scenario = parse_scenario(read_file(find_scenario(name)), name,
                                    {"parallel.ranks=" + std::to_string(ranks)})
                         .scenario;
          scenario.algorithm = algorithm.name;
          scenario.placement.clear();
          scenario.schedule = {};
          scenario.parallel.groups.clear();
          scenario.parallel.homes.clear();
          scenario = resolve(std::move(scenario));
        } catch (const std::exception&) {
          continue;  // not of this algorithm, or not with so many ranks
        }
        ++tried;
        for (const OptionInfo& option : algorithm.options) {
          const OptionValue* taken = scenario.schedule.find(option.key);
          CAPTURE(name);
          CAPTURE(algorithm.name);
          CAPTURE(option.key);
          if (option.default_rule.empty())
            CHECK((!taken || *taken == option.default_value));
          else if (taken && *taken != option.default_value)
            varied.insert(std::string(option.key));
        }
      }
    }
  }
  CHECK(tried > 50);
  for (const char* key : {"inner_ranks", "rotation", "own_kv", "merge", "chunk"}) CHECK(varied.contains(key));
}

TEST_CASE("list prints the rule of a default that depends on the scenario, as text and as JSON") {
  const json listed = json_of({"list", "algorithms"});
  for (const json& algorithm : listed["algorithms"]) {
    for (const json& option : algorithm["options"]) {
      CAPTURE(option.dump());
      CHECK(option["default"].is_null() == option["default_rule"].is_string());
    }
    if (algorithm["name"] != "usp") continue;
    for (const json& option : algorithm["options"])
      if (option["key"] == "inner_ranks")
        CHECK(option["default_rule"] == "the most, up to 8, that divide ranks and heads");
  }
  CHECK(contains(run_cplab({"list", "algorithms", "--csv", "-"}).out,
                 "inner_ranks,\"the most, up to 8, that divide ranks and heads\""));
}

// Of few queries, for which tree and helix are, no rank has a pair of chunks.
TEST_CASE("all algorithms that take zigzag take it by default, but for those of decoding") {
  for (const cplab::Algorithm& algorithm : cplab::algorithms()) {
    if (algorithm.name == "tree" || algorithm.name == "helix") continue;
    CAPTURE(algorithm.name);
    const auto& legal = algorithm.placements;
    if (std::find(legal.begin(), legal.end(), "zigzag") != legal.end()) CHECK(legal.front() == "zigzag");
  }
}

TEST_CASE("foreign words are met by what is meant or by nothing") {
  for (const auto& [word, said] : foreign_keys()) {
    const ProgramResult result = run_cplab({"check", "ring-small", "--set", "problem." + word + "=1"});
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, said));
    if (!contains(said, "did you mean")) CHECK_FALSE(contains(result.err, "did you mean"));
  }
}

TEST_CASE("foreign values, options, commands and files are met by what is meant or by nothing") {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases{
      {{"check", "ring-small", "--set", "parallel.algorithm=megatron"}, "p2p is \"ring\""},
      {{"check", "ring-small", "--set", "parallel.algorithm=transformer-engine"}, "p2p is \"ring\""},
      {{"check", "ring-small", "--set", "parallel.algorithm=flash"}, "it is a kernel"},
      {{"check", "ring-small", "--set", "parallel.algorithm=quux"}, ""},
      {{"check", "ring-small", "--set", "parallel.placement=spiral"}, ""},
      {{"check", "ring-small", "--set", "problem.sink=learnable"}, "did you mean \"head\""},
      {{"check", "ring-small", "--set", "problem.bias=t5"}, "did you mean \"buckets\""},
      {{"check", "ring-small", "--set", "problem.mask=purple"}, ""},
      {{"check", "ring-small", "--set", "problem.softmax=flash"}, ""},
      {{"check", "ring-small", "--set", "parallel.algorithm=all_gather", "--set", "schedule.kv_slots=3"},
       "it is an option of ring, "},
      {{"check", "ring-small", "--set", "model.layers=80"}, "one attention call"},
      {{"check", "ring-small", "--verbose"}, "--quiet"},
      {{"check", "ring-small", "--tp", "8"}, "tensor-parallel rank"},
      {{"check", "ring-small", "--frobnicate"}, ""},
      {{"check", "ring-small", "--color", "purple"}, ""},
      {{"check", "nofile.toml"}, ""},
      {{"check", "rnig"}, "did you mean \"ring\""},
      {{"simulate", "ring", "--set", "hardware.file=b200"}, "did you mean \"b200x8\""},
      {{"simulate", "ring", "--set", "hardware.file=l40s"}, "with [efficiency]"},
      {{"simulate", "ring", "--set", "hardware.file=a100"}, "did you mean \"a100x8\""},
      {{"simulate", "ring", "--set", "hardware.file=nonsense"}, ""},
      {{"simulate", "ring", "--set", "hardware.file=h100"}, "did you mean \"h100x8\""},
      {{"simulate", "ring", "--set", "simulate.straggler=2"}, "did you mean \"slow\""},
      {{"verify", "ring-small", "--inject", "gremlin"}, ""},
      {{"reproduce", "zzz"}, ""},
      {{"reproduce", "te-p2p"}, "did you mean te-p2p-memory"},
      {{"optimise"}, ""},
      {{"simluate", "ring"}, "did you mean simulate"},
  };
  for (const auto& [arguments, said] : cases) {
    const ProgramResult result = run_cplab(arguments);
    CAPTURE(result.err);
    CHECK(result.code == 2);
    CHECK(contains(result.err, said));
    if (!contains(said, "did you mean")) CHECK_FALSE(contains(result.err, "did you mean"));
  }
}

TEST_CASE("what fits is said with what is counted, and what does not is seen at once and fails --strict") {
  const std::vector<std::string> fine = lines_of(run_cplab({"simulate", "ring"}).out);
  REQUIRE(fine.size() > 3);
  CHECK(contains(fine[2], "one attention call fits: "));
  CHECK(contains(fine[2], "(weights, optimizer, other layers not counted)"));

  const std::vector<std::string> large{"simulate", "ring", "--set", "problem.batch=160"};
  const ProgramResult loose = run_cplab(large);
  CHECK(loose.code == 0);
  CHECK(contains(lines_of(loose.out).at(2), "one attention call does not fit"));
  std::vector<std::string> strict = large;
  strict.emplace_back("--strict");
  const ProgramResult failed = run_cplab(strict);
  CHECK(failed.code == 1);
  CHECK(contains(failed.err, "--strict: one attention call does not fit"));
}

TEST_CASE("a side of a window without effect has a note") {
  const auto notes = [](const std::string& window, const std::string& mask = "causal") {
    return json_of({"check", "ring-small", "--set", "problem.window=" + window, "--set",
                    "problem.mask=" + mask})["notes"]
        .dump();
  };
  const std::int64_t tokens =
      json_of({"check", "ring-small"})["scenario"]["problem"]["sequence"].get<std::int64_t>();
  const std::string wide = std::to_string(tokens - 1), narrow = std::to_string(tokens - 2);
  CHECK(contains(notes("[" + wide + ", 0]"), "the left side cuts nothing off"));
  CHECK_FALSE(contains(notes("[" + narrow + ", 0]"), "window"));
  CHECK(contains(notes("[3, 5]"), "the right side changes nothing"));
  CHECK_FALSE(contains(notes("[3, 0]"), "window"));
  CHECK_FALSE(contains(notes("[3, 5]", "full"), "window"));
  CHECK(contains(notes("[3, " + wide + "]", "full"), "the right side cuts nothing off"));
  CHECK_FALSE(contains(notes("[-1, -1]"), "window"));
  CHECK(contains(run_cplab({"check", "ring-small", "--set", "problem.window=[3, 5]"}).err,
                 "note: problem.window"));
}

TEST_CASE("the demo stars the fastest row") {
  const json demo = json_of({"demo"});
  double fastest = 1e30, starred = -1;
  for (const json& row : demo["rows"]) {
    if (row["fits"] && row["verified"]) fastest = std::min(fastest, row["time_s"].get<double>());
    if (row["best"]) starred = row["time_s"];
  }
  CHECK(starred == fastest);
}

TEST_CASE("nothing printed is wider than 100 columns in a pipe, and nothing is cut") {
  unsetenv("COLUMNS");
  const std::vector<std::vector<std::string>> commands{
      {"list", "algorithms"},
      {"list", "faults"},
      {"list", "scenarios"},
      {"list", "published"},
      {"list", "hardware"},
      {"list", "placements"},
      {"show", "ring"},
      {"simulate", "ring-64", "--ranks"},
      {"simulate", "ring", "--set", "schedule.between=layers"},
      {"kernels"},
      {"check", "ring-small"},
      {"verify", "ring-small"},
      {"--help"},
      {"simulate", "--help"},
      {"run", "--help"}};
  for (const std::vector<std::string>& command : commands) {
    CAPTURE(command);
    const ProgramResult result = run_cplab(command);
    CHECK(result.code == 0);
    for (const std::string& line : lines_of(result.out)) {
      CAPTURE(line);
      const auto points = std::count_if(
          line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
      CHECK(points <= 100);
    }
  }
}

TEST_CASE("many ranks are summed up, and all are there with --ranks") {
  const std::string few = run_cplab({"simulate", "ring-64"}).out;
  CHECK(contains(few, "worst "));
  CHECK(contains(few, "best "));
  CHECK(contains(few, "mean"));
  CHECK(lines_of(few).size() < 30);
  CHECK(lines_of(run_cplab({"simulate", "ring-64", "--ranks"}).out).size() > 64);
}

TEST_CASE("CSV: LF, units, seconds and bytes, totals, no blanks to fill down") {
  const std::vector<std::vector<std::string>> commands{
      {"simulate", "ring"}, {"demo"}, {"show", "ring"}, {"list", "algorithms"}, {"check", "ring-small"}};
  for (std::vector<std::string> command : commands) {
    command.insert(command.end(), {"--csv", "-"});
    CAPTURE(command);
    const std::string csv = run_cplab(command).out;
    CHECK_FALSE(contains(csv, "\r"));
    const std::vector<std::string> lines = lines_of(csv);
    CHECK_FALSE(contains(lines.at(0), "_ms"));
    CHECK_FALSE(contains(lines.at(0), "_gib"));
    for (const std::string& line : lines) CHECK_FALSE(line.starts_with(","));
  }
  const std::vector<std::string> ring = lines_of(run_cplab({"simulate", "ring", "--csv", "-"}).out);
  CHECK(contains(ring.at(0), "total_time_s,low_s,high_s,fits,headroom_bytes"));
}
