// Inputs that took a time out of proportion to their size. Nothing is timed here: what used to take minutes
// is done, or its parts are counted.
#include <doctest/doctest.h>

#include <string>

#include "report/json_reader.hpp"
#include "tests/cli/program.hpp"
#include "tests/trials/inputs.hpp"

using namespace cplab;

TEST_CASE("long lists of objects, and objects with many keys, are read in proportion to their size") {
  constexpr int count = 400000;  // looked through once for each of them: 8e10 steps
  std::string list = "[", object = "{";
  for (int i = 0; i < count; ++i) {
    list += i == 0 ? "{}" : ",{}";
    object += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":[" + std::to_string(i) + "]";
  }
  const JsonDocument lists(list + "]", "lists.json");
  CHECK(lists.root().size() == count);
  const JsonDocument objects(object + "}", "objects.json");
  int members = 0;
  objects.root().members([&](const std::string& key, const JsonNode& value) {
    members += key == std::to_string(value.at(std::size_t{0}).integer());
  });
  CHECK(members == count);
  CHECK_THROWS_WITH(JsonDocument(object + ",\"399\":1}", "twice.json"),
                    "twice.json: the key \"399\" occurs twice in one object");
  CHECK_THROWS_WITH(JsonDocument("[1e999]", "large.json"),
                    "large.json: no JSON: [json.exception.out_of_range.406] number overflow parsing '1e999'");
}

TEST_CASE("what verifying linear attention would need is counted, not listed") {
  // 2^30 tokens: a list of the rows of one rank alone takes 32 GiB.
  const auto refused =
      run_cplab({"verify", trial("verify_guard_late.toml"), "--set", "problem.lengths=[1073741824]"});
  CHECK(refused.code == 3);
  CHECK(refused.err.find("executing this on the CPU needs about") != std::string::npos);
}

TEST_CASE("a plan that claims a far larger arena than its buffers take is refused before it runs") {
  const TemporaryFolder folder;
  const std::string path = folder.path("plan.json");
  REQUIRE(run_cplab({"show", "ring-small", "--json", path}).code == 0);
  const std::string text = read_file(path), key = "\"arena_bytes\": ";
  const std::size_t at = text.find(key);
  REQUIRE(at != std::string::npos);
  const std::size_t digits = text.find_first_not_of("0123456789", at + key.size());
  for (const char* claimed : {"17179869184", "4611686018427387904"}) {
    CAPTURE(claimed);
    const std::string wrong =
        folder.write("wrong.json", text.substr(0, at + key.size()) + claimed + text.substr(digits));
    const auto checked = run_cplab({"check", "--plan", wrong});
    CHECK(checked.code == 1);
    CHECK(checked.out.find("lifetime  rank 0  the arena has " + std::string(claimed) + " bytes") !=
          std::string::npos);
    const auto verified = run_cplab({"verify", "--plan", wrong});  // may be refused for its memory as well
    CHECK((verified.code == 1 || verified.code == 3));
  }
}

TEST_CASE("stripes are traded as strided ranges: as fast at a million tokens as at a thousand") {
  const auto simulated =
      run_cplab({"simulate", "families-64", "--set", "parallel.algorithm=all_to_all", "--set",
                 "parallel.placement=striped", "--set", "problem.sequence=4M", "--set", "problem.heads=64"});
  CHECK(simulated.code == 0);
}

TEST_CASE("long many short sequences are planned and proved in proportion to their number") {
  const TemporaryFolder folder;
  const auto packed = [&](int count, const std::string& rest) {
    std::string lengths;
    for (int i = 0; i < count; ++i) lengths += (i == 0 ? "" : ", ") + std::to_string(4 + i * 7 % 53);
    return folder.write("packed.toml", "[problem]\nlengths = [" + lengths +
                                           "]\nheads = 4\nhead_size = 64\nmask = \"causal\"\n" + rest);
  };
  // Each list of rows was compared range by range with each other list, and pieces of sequences were looked
  // for from the first one on: 30 s each on a machine of its own.
  const auto gathered = run_cplab(
      {"check", packed(16384, "dtype = \"bf16\"\n[parallel]\nranks = 4\nalgorithm = \"all_gather\"\n")});
  CHECK(gathered.code == 0);
  const auto scanned =
      run_cplab({"check", packed(65536,
                                 "attention = \"linear\"\ndtype = \"fp32\"\n[parallel]\nranks = 4\n"
                                 "algorithm = \"lasp_blelloch\"\nplacement = \"contiguous\"\n")});
  CHECK(scanned.code == 0);
}
