// What show says of defaults that depend on the machine: of options that nobody set, and of choices without
// an option.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using nlohmann::json;

using cplab::testing::contains;

namespace {

using Sets = std::vector<std::string>;

ProgramResult shown(const std::string& scenario, const Sets& sets, const std::vector<std::string>& options) {
  std::vector<std::string> arguments{"show", scenario, "--quiet"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  arguments.insert(arguments.end(), options.begin(), options.end());
  return run_cplab(arguments);
}

// By choice: its value and rule.
std::map<std::string, json> defaults_of(const std::string& scenario, const Sets& sets) {
  const ProgramResult result = shown(scenario, sets, {"--json", "-"});
  CAPTURE(result.err);
  REQUIRE(result.code == 0);
  std::map<std::string, json> by_choice;
  const json plan = json::parse(result.out);
  for (const json& each : plan.value("defaults", json::array())) by_choice[each.at("choice")] = each;
  return by_choice;
}

Sets with(Sets sets, const std::string& one) {
  sets.push_back(one);
  return sets;
}

}  // namespace

TEST_CASE("show lists defaults of a ring of two, but of options that are set") {
  const Sets two{"parallel.ranks=2", "problem.sequence=5120", "problem.kv_heads=32"};
  auto taken = defaults_of("ring", two);
  CHECK(taken.at("own_kv").at("value") == "keep");
  CHECK(taken.at("parts").at("value") == 2);
  CHECK(taken.at("gradient_sum").at("value") == "fused");
  CHECK(contains(taken.at("own_kv").at("rule"), "2560 rows"));
  CHECK(taken.at("ends of parts").at("value") == 128);
  CHECK(taken.at("dq").at("value") == "rounded by a cast");
  CHECK(taken.count("kv_slots") == 0);  // the paper's, on any machine

  const Sets set = with(two, "schedule.own_kv=keep");
  CHECK(defaults_of("ring", set).count("own_kv") == 0);
  CHECK(defaults_of("ring", set).count("parts") == 1);

  const std::string text = shown("ring", two, {}).out, without = shown("ring", set, {}).out;
  CHECK(contains(text, "Defaults that depend on the machine"));
  CHECK(contains(text, "\nown_kv "));
  CHECK_FALSE(contains(without, "\nown_kv "));
}

TEST_CASE("show lists defaults of all_gather: messages that are packed, and who rounds dq") {
  const Sets short_ones{"parallel.algorithm=all_gather"};
  auto taken = defaults_of("families-4", short_ones);
  CHECK(taken.at("pack_above").at("value") == 16);
  CHECK(taken.at("dq").at("value") == "rounded by tiles");
  CHECK(contains(taken.at("dq").at("rule"), "1024 tokens"));
  CHECK(taken.count("dk, dv") == 0);  // no tile rounds them: they are summed over ranks, in fp32
  CHECK(defaults_of("families-4", {"parallel.algorithm=head_strided"}).at("dk, dv").at("value") ==
        "room to sum them");
  CHECK(defaults_of("families-4", with(short_ones, "schedule.pack_above=16")).count("pack_above") == 0);
  CHECK(defaults_of("families-4", with(short_ones, "schedule.accumulator=nominal")).count("dq") == 0);
  CHECK(defaults_of("families-4", with(short_ones, "problem.sequence=2048")).at("dq").at("value") ==
        "rounded by a cast");
}

TEST_CASE("show lists the default of LASP with a scan: the rows of a chunk") {
  auto taken = defaults_of("lasp", {});
  REQUIRE(taken.count("chunk") == 1);
  CHECK(contains(taken.at("chunk").at("rule"), "132 thread blocks"));
  CHECK(defaults_of("lasp", {"schedule.chunk=1024"}).empty());
}

TEST_CASE("show of a plan file, whose options are all given, lists none") {
  const TemporaryFolder folder;
  const ProgramResult plan = shown("families-4", {}, {"--json", "-"});
  const std::string file = folder.write("plan.json", plan.out);
  const ProgramResult again = run_cplab({"show", "--plan", file, "--json", "-", "--quiet"});
  REQUIRE(again.code == 0);
  CHECK(json::parse(plan.out).contains("defaults"));
  CHECK_FALSE(json::parse(again.out).contains("defaults"));
}
