// verify --inject: every fault of the table in its example, and where it has no place.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "tests/cli/program.hpp"

using nlohmann::json;

namespace {

json result_of(std::vector<std::string> arguments, int code) {
  arguments.insert(arguments.end(), {"--json", "-"});
  const ProgramResult result = run_cplab(arguments);
  CAPTURE(result.err);
  CHECK(result.code == code);
  json parsed = json::parse(result.out, nullptr, false);
  REQUIRE_FALSE(parsed.is_discarded());
  return parsed;
}

}  // namespace

TEST_CASE("every fault is found as it says") {
  const json faults = result_of({"list", "faults"}, 0);
  CHECK(faults.at("faults").size() >= 10);
  for (const json& fault : faults.at("faults")) {
    const std::string name = fault.at("name");
    CAPTURE(name);
    const bool clean = fault.at("form") == "identity";
    const json result =
        result_of({"verify", fault.at("scenario"), "--inject", name, "--order", "random:7"}, clean ? 0 : 1);
    CHECK(result.at("ok") == clean);
    if (clean) continue;
    CHECK(run_cplab({"verify", fault.at("scenario")}).code == 0);
    const json& expected = fault.at("expected");
    const auto& findings = result.at("findings");
    CHECK(std::any_of(findings.begin(), findings.end(), [&](const json& finding) {
      return finding.at("kind") == expected.at("kind") &&
             (expected.at("rank").is_null() || finding.at("rank") == expected.at("rank")) &&
             (expected.at("operation").is_null() || finding.at("operation") == expected.at("operation"));
    }));
  }
}

TEST_CASE("a fault that has no place in a plan says what it needs") {
  const std::vector<std::pair<const char*, const char*>> cases{
      {"gather-reuse",
       "a gather that waits for a tile (three strides of key heads that are sent as they are: "
       "pack_above)"},
      {"no-visible-clamp",
       "gathered keys, a causal mask, and a sequence that ends inside a chunk (all_gather, padding)"},
      {"communicator-order",
       "a ring across teams, in which every rank sends and receives, beside what they do "
       "inside (hierarchical or usp, 1 < inner_ranks < ranks)"},
  };
  for (const auto& [fault, needs] : cases) {
    const ProgramResult result = run_cplab({"verify", "faults/ring", "--inject", fault});
    CHECK(result.code == 2);
    CHECK(result.err.find("fault " + std::string(fault) + " has no place in this plan; it needs " + needs) !=
          std::string::npos);
  }
}
