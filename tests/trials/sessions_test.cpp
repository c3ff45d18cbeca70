// Commands: what they read, repeat, print on several pages of a result.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/trials/inputs.hpp"

using cplab::testing::contains;
using nlohmann::json;

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
                                                        {"hardware.gpu.sms", "--set hardware.gpu.sms=VALUE"},
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
