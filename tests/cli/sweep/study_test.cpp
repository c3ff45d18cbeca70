// Studies as files: axes, ranges, rows, constraints, shards, and what is refused with its line.
#include "cli/sweep/study.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <set>

#include "cli/files/changes.hpp"
#include "tests/contains.hpp"

using namespace cplab;
using cplab::testing::contains;

namespace {

Study study_of(const std::string& text) {
  setenv("CPLAB_SCENARIOS", CPLAB_TEST_SCENARIOS, 1);
  return parse_study(text, "study.toml");
}

// The changes of every point.
std::vector<std::vector<std::string>> points_of(const std::string& text,
                                                const std::vector<std::string>& changes = {}) {
  const Study study = study_of(text);
  const StudyPoints points(study, changes);
  std::vector<std::vector<std::string>> all;
  for (std::int64_t i = 0; i < points.size(); ++i) all.push_back(points.changes(i));
  return all;
}

std::string error_of(const std::string& text, const std::vector<std::string>& changes = {}) {
  try {
    (void)points_of(text, changes);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// The values of one axis, as --set has them.
std::vector<std::string> values_of(const std::string& vary) {
  std::vector<std::string> values;
  for (const auto& changes : points_of("scenario = \"ring\"\n[vary]\n" + vary)) {
    REQUIRE(changes.size() == 1);
    values.push_back(changes.front().substr(changes.front().find('=') + 1));
  }
  return values;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("points are the product of the axes, the last one fastest") {
  const auto points = points_of(R"(
scenario = "ring"
[vary]
"problem.sequence" = ["32K", 65536]
"parallel.ranks" = [2, 4, 8]
)");
  REQUIRE(points.size() == 6);
  CHECK(points[0] == Words{"problem.sequence=32K", "parallel.ranks=2"});
  CHECK(points[1] == Words{"problem.sequence=32K", "parallel.ranks=4"});
  CHECK(points[3] == Words{"problem.sequence=65536", "parallel.ranks=2"});
  CHECK(points[5] == Words{"problem.sequence=65536", "parallel.ranks=8"});
}

TEST_CASE("keys with and without quotes, in sections, in the order of the file") {
  const auto points = points_of(R"(
scenario = "ring"
[vary]
parallel.ranks = [2, 4]
"problem.heads" = 32
parallel.placement = ["zigzag"]
[vary.schedule]
kv_slots = [2, 3]
)");
  REQUIRE(points.size() == 4);
  CHECK(points[1] ==
        Words{"parallel.ranks=2", "problem.heads=32", "parallel.placement=zigzag", "schedule.kv_slots=3"});
}

TEST_CASE("ranges by factor and by step, never beyond their end") {
  CHECK(values_of("\"parallel.ranks\" = {from = 8, to = 64, times = 2}") == Words{"8", "16", "32", "64"});
  CHECK(values_of("\"parallel.ranks\" = {from = 8, to = 63, times = 2}") == Words{"8", "16", "32"});
  CHECK(values_of("\"parallel.ranks\" = {from = 3, to = 100, times = 3}") == Words{"3", "9", "27", "81"});
  CHECK(values_of("\"problem.sequence\" = {from = \"8K\", to = \"32K\", times = 2}") ==
        Words{"8192", "16384", "32768"});
  CHECK(values_of("\"problem.heads\" = {from = 1, to = 8, step = 3}") == Words{"1", "4", "7"});
  CHECK(values_of("\"problem.heads\" = {from = 5, to = 5, step = 3}") == Words{"5"});
  // 0.1 + 2 * 0.1 is above 0.3 in binary; the range ends with it all the same.
  CHECK(values_of("\"hardware.host.x\" = {from = 0.1, to = 0.3, step = 0.1}").size() == 3);
  CHECK(values_of("\"hardware.network.nic\" = {from = \"100Gb/s\", to = \"400Gb/s\", times = 2}") ==
        Words{"100Gb/s", "200Gb/s", "400Gb/s"});
}

TEST_CASE("ranges that are none") {
  const auto error = [](const std::string& range) {
    return error_of("scenario = \"ring\"\n[vary]\n\"parallel.ranks\" = " + range);
  };
  CHECK(contains(error("{from = 8, to = 64}"), "study.toml:3: vary.parallel.ranks: must have one of times"));
  CHECK(contains(error("{from = 8, to = 64, times = 2, step = 8}"), "must have one of times and step"));
  CHECK(contains(error("{from = 8, to = 64, times = 1}"), "must be above 1"));
  CHECK(contains(error("{from = 8, to = 64, step = 0}"), "must be above 0"));
  CHECK(contains(error("{from = 64, to = 8, step = 1}"), "must not be less than from"));
  CHECK(contains(error("{from = 0, to = 8, times = 2}"), "from above 0"));
  CHECK(contains(error("{from = \"x\", to = 8, step = 1}"), "must be a number"));
  CHECK(contains(error("{from = 1, to = 9000000000, step = 1}"), "more than 100000 values"));
  CHECK(contains(error("{from = 1, to = 8, step = 1, by = 2}"), "unknown key"));
  CHECK(contains(error("{from = \"1Gb/s\", to = \"4GB/s\", times = 2}"), "must have the unit of from"));
  CHECK(contains(error("[]"), "is empty"));
}

TEST_CASE("keys that vary together: lists of lists, and a table for each row") {
  const std::vector<Words> expected{{"problem.heads=32", "problem.kv_heads=8", "parallel.ranks=2"},
                                    {"problem.heads=32", "problem.kv_heads=8", "parallel.ranks=4"},
                                    {"problem.heads=64", "problem.kv_heads=16", "parallel.ranks=2"},
                                    {"problem.heads=64", "problem.kv_heads=16", "parallel.ranks=4"}};
  CHECK(points_of(R"(
scenario = "ring"
[vary]
"problem.heads, problem.kv_heads" = [[32, 8], [64, 16]]
"parallel.ranks" = [2, 4]
)") == expected);
  CHECK(points_of(R"(
scenario = "ring"
[[vary.shape]]
"problem.heads" = 32
problem.kv_heads = 8
[[vary.shape]]
"problem.kv_heads" = 16
"problem.heads" = 64
[vary.parallel]
ranks = [2, 4]
)") == expected);
  CHECK(contains(error_of("scenario = \"ring\"\n[vary]\n\"problem.heads, problem.kv_heads\" = [[32, 8], 64]"),
                 "a list of lists of 2 values"));
  CHECK(
      contains(error_of("scenario = \"ring\"\n[[vary.a]]\nproblem.heads = 32\n[[vary.a]]\nproblem.batch = 1"),
               "lacks problem.heads"));
}

TEST_CASE("values stay what the file says: lists, text that looks like a number, quotes") {
  CHECK(values_of("\"problem.window\" = [[4095, 0], [-1, -1]]") == Words{"[4095, 0]", "[-1, -1]"});
  CHECK(values_of("\"parallel.algorithm\" = [\"12\", \"true\", \"a b\", \"q\\\"\", \"8K\"]") ==
        Words{"\"12\"", "\"true\"", "\"a b\"", "\"q\\\"\"", "8K"});
  CHECK(values_of("\"problem.scale\" = [1.0, 0.25]") == Words{"1.0", "0.25"});
  CHECK(values_of("\"schedule.overlap\" = [true, false]") == Words{"true", "false"});
}

TEST_CASE("constraints see what varies, what the scenario says, its defaults and the command line") {
  const std::string vary = "[vary]\n\"parallel.ranks\" = [2, 3, 4, 6, 8]\n\"problem.heads\" = [28, 32]\n";
  // 28 = 4 * 7: 2 and 4 divide it; 32: 2, 4 and 8.
  CHECK(points_of("scenario = \"ring\"\nwhere = \"problem.heads % parallel.ranks == 0\"\n" + vary).size() ==
        5);
  // kv_heads is heads in a scenario that does not say it, and then varies with it.
  const std::string without = "scenario.problem = {sequence = 1024}\n";
  CHECK(points_of(without + "where = \"problem.kv_heads == problem.heads\"\n" + vary).size() == 10);
  CHECK(points_of(without + "where = \"problem.sequence == 1K and problem.batch == 1\"\n" + vary).size() ==
        10);
  CHECK(points_of(without + "where = \"problem.sequence == 2K\"\n" + vary, {"problem.sequence=2K"}).size() ==
        10);
  CHECK(points_of(without + "where = \"problem.sequence == 2K\"\n" + vary).empty());
  CHECK(contains(error_of(without + "where = \"problem.dtype == 'bf16'\"\n" + vary),
                 "the scenario does not set it"));
  CHECK(
      contains(error_of(without + "where = \"1 / (parallel.ranks - 3) > 0\"\n" + vary), "division by zero"));
  CHECK(contains(error_of(without + "where = [\"1 == 1\", \"1 = 1\"]\n" + vary), "study.toml:2: where:"));
}

TEST_CASE("each point that is left out counts for the first constraint that does so") {
  const Study study = study_of(R"(
scenario = "ring"
[vary]
"parallel.ranks" = [1, 2, 3, 4, 5, 6]
[[constraint]]
where = "parallel.ranks % 2 == 0"
why = "pairs"
[[constraint]]
where = "parallel.ranks <= 4"
)");
  const StudyPoints points(study, {});
  CHECK(points.product() == 6);
  CHECK(points.size() == 2);
  REQUIRE(points.excluded().size() == 2);
  CHECK(points.excluded()[0] == std::pair<std::string, std::int64_t>("parallel.ranks % 2 == 0 (pairs)", 3));
  CHECK(points.excluded()[1] == std::pair<std::string, std::int64_t>("parallel.ranks <= 4", 1));
}

TEST_CASE("shards, counted from 0 or from 1, are disjoint and the whole") {
  for (const std::int64_t count : {1, 2, 3, 7, 50}) {
    for (const std::int64_t first : {0, 1}) {
      std::multiset<std::int64_t> seen;
      for (std::int64_t i = first; i < count + first; ++i) {
        const auto shard = parse_shard(std::to_string(i) + "/" + std::to_string(count));
        REQUIRE(shard);
        for (std::int64_t number = 0; number < 41; ++number)
          if (shard->has(number)) seen.insert(number);
      }
      CHECK(seen.size() == 41);
      CHECK(std::set<std::int64_t>(seen.begin(), seen.end()).size() == 41);
    }
  }
  for (const char* none : {"", "1", "1/", "/2", "3/2", "-1/2", "1/0", "1/2x", "a/b", "1/2/3"})
    CHECK_FALSE(parse_shard(none));
}

TEST_CASE("what is no study says file, line and key") {
  const std::string vary = "[vary]\n\"parallel.ranks\" = [2]\n";
  CHECK(contains(error_of(vary), "scenario: missing"));
  CHECK(contains(error_of("scenario = \"ring\"\n"), "vary: missing"));
  CHECK(contains(error_of("scenario = \"rong\"\n" + vary), "study.toml:1: scenario: rong: no such scenario"));
  CHECK(contains(error_of("[problem]\nheads = 8\n"), "this is a scenario"));
  CHECK(contains(error_of("scenario = \"ring\"\nvary = 3\n"), "must be a section"));
  CHECK(contains(error_of("scenario = \"ring\"\nconstrant = 3\n" + vary), "did you mean"));
  CHECK(contains(error_of("scenario = \"ring\"\nshard = \"5/4\"\n" + vary), "must be \"i/n\""));
  const std::string head = "scenario = \"ring\"\n[vary]\n";
  CHECK(contains(error_of(head + "\"ranks\" = [2]"), "no key of a scenario"));
  CHECK(contains(error_of(head + "\"problm.heads\" = [2]"), "did you mean"));
  CHECK(contains(error_of(head + "\"problem.haeds\" = [2]"), "no such key; did you mean"));
  CHECK(contains(error_of(head + "\"schedule.kv_slot\" = [2]"), "no such key; did you mean"));
  CHECK(contains(error_of(head + "\"problem.heads\" = [2]\nproblem.heads = [4]"), "varies twice"));
  CHECK(contains(error_of("scenario = \"ring\"\n" + vary, {"parallel.ranks = 4"}), "the study varies"));
  std::string large = head;
  for (const char* key : {"problem.heads", "problem.batch", "parallel.ranks"})
    large += "\"" + std::string(key) + "\" = {from = 1, to = 1000, step = 1}\n";
  CHECK(contains(error_of(large), "more than 10000000 points"));
}

TEST_CASE("a scenario that stands in its study names the study's lines") {
  const Study study = study_of(
      R"(scenario.problem = {sequence = "4K", heads = 8, head_size = 64, dtype = "bf16", mask = "full"}
scenario.parallel = {algorithm = "ring", ranks = 4}
vary."problem.sequence" = ["8K", "16K"]
)");
  CHECK(study.read({}).scenario.problem.sequence == 4096);
  CHECK(study.read({"problem.sequence=8K"}).scenario.problem.sequence == 8192);
  try {
    (void)study.read({"parallel.ranks=0"});
    CHECK(false);
  } catch (const InputError& error) {
    CHECK(contains(error.what(), "--set parallel.ranks: must be"));
  }
  const Study wrong = study_of("scenario.problem = {sequence = 1, heds = 3}\nvary.\"problem.heads\" = [1]\n");
  try {
    (void)wrong.read({});
    CHECK(false);
  } catch (const InputError& error) {
    CHECK(contains(error.what(), "study.toml:1: problem.heds: unknown key"));
  }
}
