// cplab explain, and the shell's completion: made of the same tables.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "algorithms/core/list.hpp"
#include "cli/completing.hpp"
#include "cli/explained.hpp"
#include "cli/files/changes.hpp"
#include "cli/keys/keys.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;
using nlohmann::json;

namespace {

std::string explained(const std::string& word) {
  const ProgramResult result = run_cplab({"explain", word});
  CAPTURE(word);
  CAPTURE(result.err);
  CHECK(result.code == 0);
  return result.out;
}

std::string error_of(const std::string& word) {
  const ProgramResult result = run_cplab({"explain", word});
  CHECK(result.code == 2);
  CHECK(result.out.empty());
  return result.err;
}

bool proposes(const std::vector<std::string>& words, const std::string& word) {
  const std::vector<std::string> all = completions(words);
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace

TEST_CASE("a key: what it is, unit, default, legal values, who takes it, page") {
  const std::string window = explained("problem.window");
  for (const char* part : {"problem.window: key of scenarios", "keys to the left and to the right", "tokens",
                           "[-1, -1]", "-1 (unlimited)", "softmax attention", "docs/20-masks.md"})
    CHECK(contains(window, part));
  CHECK(explained("window").find(window) != std::string::npos);  // and what else has that name
  CHECK(contains(explained("problem.dtype"), "missing is an error"));
  CHECK(contains(explained("problem.dtype"), "bf16, fp16, fp32, fp64"));
  CHECK(contains(explained("training.optimizer"), "adam, adamw, muon, momentum, sgd"));
  CHECK(contains(explained("hardware.gpu.sms"), "multiprocessors"));
  CHECK(contains(explained("hardware.kernel.3.seconds"), "hardware.kernel[].seconds"));
  CHECK(contains(explained("vary"), "key of studies"));
}

TEST_CASE("options, algorithms and placements, by their names and aliases") {
  const std::string slots = explained("kv_slots");
  CHECK(contains(slots, "schedule.kv_slots: option of [schedule]"));
  CHECK(contains(slots, "ring"));
  CHECK(contains(explained("p2p"), "ring: algorithm"));
  CHECK(contains(explained("head-tail"), "zigzag: placement"));
  CHECK(contains(explained("ring"), "docs/10-families.md"));
}

TEST_CASE("keys of results, with the results that have them") {
  const std::string time = explained("time_s");
  for (const char* part : {"time_s: key of results", "ranks[].time_s", "in s", "simulate", "sweep"})
    CHECK(contains(time, part));
  CHECK(contains(explained("ranks[].exposed_wait_s"), "still lacks a peer"));
}

TEST_CASE("everything that has a row can be asked for, by everything that names it") {
  for (const std::string& name : names_explained()) {
    CAPTURE(name);
    CHECK(run_cplab({"explain", name}).code == 0);
  }
  for (const std::string& option : option_keys()) CHECK_FALSE(explained_as("schedule." + option).empty());
  for (const Algorithm& algorithm : algorithms()) {
    CHECK_FALSE(explained_as(algorithm.name).empty());
    for (const std::string_view alias : algorithm.aliases) CHECK_FALSE(explained_as(alias).empty());
  }
}

TEST_CASE("sections are tables") {
  for (const std::string_view section : key_sections()) {
    const std::string text = explained(std::string(section));
    CHECK(contains(text, "what it is"));
  }
  CHECK(contains(explained("schedule"), "kv_slots"));
  CHECK(contains(run_cplab({"explain"}).out, "free choices of the algorithm"));
}

TEST_CASE("a word that nothing has: the nearest, exit 2") {
  CHECK(contains(error_of("problem.widnow"), "did you mean"));
  CHECK(contains(error_of("problem.widnow"), "window"));
  CHECK(contains(error_of("num_attention_heads"), "problem.heads"));
  CHECK(contains(error_of("zigzga"), "zigzag"));
  CHECK(contains(error_of("exposed_wate_s"), "exposed_wait_s"));
  CHECK(contains(error_of("qqqqqqqq"), "nothing has that name"));
}

TEST_CASE("the same as JSON") {
  const json result = json_of({"explain", "problem.dtype"});
  REQUIRE(result.at("explained").size() == 1);
  const json& entry = result.at("explained")[0];
  CHECK(entry.at("name") == "problem.dtype");
  CHECK(entry.at("legal") == json{"bf16", "fp16", "fp32", "fp64"});
  CHECK(entry.at("unit").is_null());
  CHECK(json_of({"explain"}).at("explained").size() == all_explained().size());
}

TEST_CASE("completion: commands, options, first words") {
  CHECK(proposes({""}, "simulate"));
  CHECK(proposes({"sim"}, "simulate"));
  CHECK_FALSE(proposes({"sim"}, "show"));
  CHECK(proposes({"simulate", "ring-s"}, "ring-small"));
  CHECK(proposes({"simulate", "published/"}, "published/te-p2p-memory"));
  CHECK_FALSE(proposes({"simulate", "ring", "ring-s"}, "ring-small"));  // it has its scenario
  CHECK(proposes({"simulate", "ring", "--h"}, "--hardware"));
  CHECK(proposes({"run", "ring", "--device", ""}, "gpu"));
  CHECK(proposes({"run", "ring", "--device=g"}, "--device=gpu"));
  CHECK(proposes({"simulate", "ring", "--hardware", "h100"}, "h100x8"));
  CHECK(proposes({"simulate", "ring", "--algorithms", "ring,all_t"}, "ring,all_to_all"));
  CHECK(proposes({"list", "pla"}, "placements"));
  CHECK(proposes({"explain", "problem.m"}, "problem.mask"));
  CHECK(proposes({"schema", ""}, "simulate"));
  CHECK(completions({"run", "ring", "--save", ""}).empty());  // a folder: the shell's to complete
  CHECK(completions({"nothing", ""}).empty());
  CHECK(completions({}).empty());
}

TEST_CASE("completion: keys of --set and their legal values") {
  CHECK(proposes({"check", "ring", "--set", "pro"}, "problem."));
  CHECK(proposes({"check", "ring", "--set", "problem.ma"}, "problem.mask="));
  CHECK(proposes({"check", "ring", "--set", "problem.mask=c"}, "problem.mask=causal"));
  CHECK(proposes({"check", "ring", "--set", "problem.max_logit="}, "problem.max_logit=true"));
  CHECK(proposes({"check", "ring", "--set", "parallel.algorithm=u"}, "parallel.algorithm=usp"));
  CHECK(proposes({"check", "ring", "--set", "parallel.placement=zig"}, "parallel.placement=zigzag"));
  CHECK(proposes({"check", "ring", "--set", "schedule.kv_s"}, "schedule.kv_slots="));
  CHECK(proposes({"check", "ring", "--set", "schedule.kv_slots="}, "schedule.kv_slots=all"));
  CHECK(proposes({"check", "ring", "--set", "hardware.file=h2"}, "hardware.file=h200x4"));
  CHECK(proposes({"check", "ring", "--set", "hardware.g"}, "hardware.gpu."));
  CHECK(proposes({"check", "ring", "--set", "hardware.gpu.s"}, "hardware.gpu.sms="));
  CHECK(proposes({"check", "ring", "--unset", "problem.win"}, "problem.window"));
  CHECK_FALSE(proposes({"check", "ring", "--set", "tra"}, "training."));
  CHECK(proposes({"advise", "--set", "training.optimizer=m"}, "training.optimizer=muon"));
  CHECK(proposes({"advise", "--model", "llama3-7"}, "llama3-70b"));
  // Whatever is proposed for a word of a scenario is taken by its reader, or refused for what stands beside
  // it.
  for (const std::string& change : completions({"check", "ring", "--set", "problem.dtype="}))
    CHECK(run_cplab({"check", "ring-small", "--set", change}).code == 0);
}

TEST_CASE("scripts and the manual page are made of the tables") {
  CHECK(contains(run_cplab({"completion", "bash"}).out, "complete -o bashdefault"));
  CHECK(contains(run_cplab({"completion", "zsh"}).out, "#compdef cplab"));
  CHECK(contains(run_cplab({"completion", "fish"}).err, "Legal: \"bash\", \"zsh\""));
  CHECK(run_cplab({"completion"}).code == 2);
  CHECK(run_cplab({"completion", "words", "simu"}).out == "simulate\n");
  const std::string page = run_cplab({"man"}).out;
  CHECK(page.starts_with(".TH CPLAB 1"));
  for (const char* part : {"cplab simulate", "\\-\\-hardware", "problem.mask", "schedule.kv_slots",
                           "training.optimizer", "CPLAB_SCENARIOS"})
    CHECK(contains(page, part));
}
