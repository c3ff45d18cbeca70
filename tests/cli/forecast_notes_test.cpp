// Notes where a forecast leaves what was measured, and none where it does not.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/cli/json_program.hpp"
#include "tests/cli/program.hpp"
#include "tests/contains.hpp"

using cplab::testing::contains;
using nlohmann::json;

namespace {

json simulated(const std::vector<std::string>& sets, const std::string& scenario = "ring") {
  std::vector<std::string> arguments{"simulate", scenario, "--quiet"};
  for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
  return json_of(arguments);
}

// Without whose kernels they are.
std::string notes(const std::vector<std::string>& sets, const std::string& scenario = "ring") {
  std::string text;
  const json result = simulated(sets, scenario);
  for (const json& note : result.at("notes"))
    if (!contains(note.get<std::string>(), "attention is timed by")) text += note.get<std::string>() + "\n";
  return text;
}

int count(const std::string& text, const std::string& words) {
  int found = 0;
  for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("forecast notes: none within what was measured") {
  for (const char* machine : {"h100x8", "h200x4", "h200x64", "h100x64"}) {
    CAPTURE(machine);
    CHECK(notes({std::string("hardware.file=") + machine, "problem.sequence=32K", "parallel.ranks=4"}) == "");
  }
  CHECK(notes({}) == "");
}

TEST_CASE("forecast notes: a machine of a data sheet, once") {
  const std::string text = notes({"hardware.file=b200x8"});
  CHECK(contains(text,
                 "b200x8 is of data sheets: attention at 70.0 % of the peak forward and 58.0 % backward"));
  CHECK(count(text, "\n") == 1);
  const json result = simulated({"hardware.file=b200x8"});
  CHECK(result.at("variants")[0].at("variant") == "attend_backward FlashAttention 4");
  CHECK(result.at("origins").at("assumed") == 1);
}

TEST_CASE("forecast notes: a head size without a table, keys and bytes beyond the last point") {
  const std::string size = notes({"hardware.file=a100x8", "problem.head_size=96"});
  CHECK(contains(
      size,
      "attend, attend_backward: no table of head size 96, only of 64, 128: by the kernels' FLOPs from "
      "the nearest"));
  CHECK_FALSE(contains(size, "slower kernels"));
  const std::string keys = notes({"parallel.algorithm=all_gather", "problem.sequence=1M"});
  CHECK(contains(keys, "attend, attend_backward: up to 1048576 keys a row, the tables end at 32768"));
  const std::string bytes = notes({"problem.sequence=4M", "problem.direction=forward"});
  CHECK(contains(bytes, "exchange by copy inside a node: up to "));
  CHECK(contains(bytes, "the curve ends at 256.00 MiB"));
}

TEST_CASE("forecast notes: other links and another number of multiprocessors than the tables'") {
  CHECK(
      contains(notes({"hardware.file=h800x8"}),
               "messages inside a node: measured over 450 GB/s a rank, here 200: start-ups and efficiencies "
               "stay"));
  CHECK(contains(notes({"hardware.gpu.sms=114"}),
                 "attend, attend_backward: tables of a GPU of 132 multiprocessors, this one has 114"));
}

TEST_CASE("forecast notes: attention far below what this GPU reaches") {
  // Documents of 200 tokens: tiles of 128 rows, of which 256 are computed, half masked, and a launch.
  std::string lengths = "200";
  for (int i = 1; i < 4000; ++i) lengths += ", 200";
  const std::string text =
      notes({"hardware.file=a100x8", "problem.lengths=[" + lengths + "]", "problem.heads=32",
             "problem.kv_heads=32", "problem.dtype=bf16", "problem.head_size=128", "problem.value_size=128"},
            "packed");
  CHECK(contains(text, "% of what long full attention reaches here"));
  CHECK(contains(text, "attend"));
}
