// Schemas: the validator sees what is wrong, every command that writes JSON has one, and results of every
// command are valid (those of all other tests as well: tests/cli/program.cpp holds each against its schema).
#include "cli/schema.hpp"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/commands/command.hpp"
#include "cli/keys/result_keys.hpp"
#include "cli/option_words.hpp"
#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/cli/schema_check.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

json schema_of(const std::string& command) {
  const ProgramResult result = run_cplab({"schema", command});
  REQUIRE(result.code == 0);
  return json::parse(result.out);
}

// The first error with `change` made to a right result.
template <class Change>
std::string error_of(Change change) {
  static const json right = json_of({"check", "ring-small"});
  json wrong = right;
  change(wrong);
  const std::vector<std::string> errors = schema_errors(schema_of("check"), wrong);
  return errors.empty() ? "" : errors.front();
}

}  // namespace

TEST_CASE("a result that is not as its schema says is seen") {
  CHECK(error_of([](json&) {}).empty());
  CHECK(error_of([](json& result) { result.erase("rounds"); }) == "$ lacks rounds");
  CHECK(contains(error_of([](json& result) { result["more"] = 1; }), "$ has the key more"));
  CHECK(contains(error_of([](json& result) { result["flops"][1] = "many"; }), "$.flops[1] is \"many\""));
  CHECK(contains(error_of([](json& result) { result["ok"] = nullptr; }), "$.ok is null"));
  CHECK(contains(error_of([](json& result) { result["rounds"] = 1.5; }), "$.rounds is 1.5"));
  CHECK(contains(error_of([](json& result) { result["scenario"]["problem"]["heats"] = 4; }),
                 "has the key heats"));
  CHECK(contains(error_of([](json& result) { result["scenario"]["schedule"]["heats"] = 4; }),
                 "has the key heats"));
  CHECK(contains(error_of([](json& result) { result["schema"] = "cplab.check.2"; }), "$.schema is not"));
  json unknown{{"type", "object"}, {"pattern", "a"}};
  CHECK(contains(schema_errors(unknown, json::object()).at(0), "keyword pattern"));
}

TEST_CASE("of a command with several results exactly one is meant") {
  const json simulate = schema_of("simulate");
  REQUIRE(simulate.at("oneOf").size() == 2);
  CHECK(schema_errors(simulate, json_of({"simulate", "ring-small", "--hardware", "h100x8"})).empty());
  CHECK(schema_errors(simulate,
                      json_of({"simulate", "ring-small", "--hardware", "h100x8", "--algorithms", "ring"}))
            .empty());
  CHECK_FALSE(schema_errors(simulate, json_of({"check", "ring-small"})).empty());
}

TEST_CASE("every command that takes --json has a schema, and its rows make sense") {
  const std::set<std::string> without{"schema", "completion", "man"};
  for (const cplab::Command& command : cplab::commands()) {
    const std::string name(command.name);
    CAPTURE(name);
    if (without.contains(name)) continue;
    const json schema = schema_of(name);
    CHECK(schema.at("$schema") == "https://json-schema.org/draft/2020-12/schema");
  }
  for (const cplab::ResultTable& table : cplab::result_tables()) {
    std::set<std::string> paths;
    for (const cplab::ResultKey& key : table.keys) {
      CAPTURE(key.path);
      CHECK(paths.insert(key.path).second);
      CHECK_FALSE(key.meaning.empty());
    }
    // Whatever is in an object or a list stands in one that has a row.
    for (const std::string& path : paths) {
      CAPTURE(path);
      const std::size_t end = path.find_last_of(".[");
      if (end != std::string::npos) CHECK(paths.contains(path.substr(0, end)));
    }
  }
}

TEST_CASE("results of commands that other tests ask less of") {
  TemporaryFolder folder;
  (void)json_of({"list"});
  (void)json_of({"kernels", "--hardware", "h200x4"});
  (void)json_of({"explain"});
  (void)json_of({"explain", "problem.mask"});
  (void)json_of({"show", "lasp-packed"});
  (void)json_of({"show", "forms", "--set", "problem.softcap=30"});
  (void)json_of({"verify", "ring-small", "--sample", "4"});
  (void)json_of({"simulate", "ring-small", "--hardware", "h100x8", "--operations"});
  (void)json_of({"run", "ring-small", "--device", "cpu", "--operations"});
  (void)json_of(
      {"sweep", folder.write("study.toml",
                             "scenario = \"ring\"\n[vary]\n\"problem.sequence\" = [\"8K\", \"16K\"]\n")});
}

TEST_CASE("a command without a schema is named with the nearest one that has one") {
  const ProgramResult result = run_cplab({"schema", "simulat"});
  CHECK(result.code == 2);
  CHECK(contains(result.err, "did you mean simulate?"));
  CHECK(run_cplab({"schema"}).code == 2);
  CHECK(run_cplab({"schema", "man"}).code == 2);
}
