// --html: a page of every command that has one, its numbers those of --json; what cannot be written, and what
// has no page.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/cli/program.hpp"
#include "tests/contains.hpp"
#include "tests/report/html_page.hpp"

using cplab::testing::contains;
using cplab::testing::ReadPage;
using nlohmann::json;

namespace {

using Words = std::vector<std::string>;

struct Made {
  ReadPage page;
  json result;
};

Made make(const TemporaryFolder& folder, Words words, int code = 0) {
  const std::string html = folder.path("page.html"), file = folder.path("page.json");
  words.insert(words.end(), {"--html", html, "--json", file});
  const ProgramResult ran = run_cplab(words);
  CAPTURE(words);
  CAPTURE(ran.err);
  REQUIRE(ran.code == code);
  CHECK(contains(ran.err, "a page in " + html));
  Made made{cplab::testing::read_page(read_file(html)), json::parse(read_file(file))};
  cplab::testing::check_numbers(made.page, made.result);
  CHECK(made.page.result == made.result);
  return made;
}

const Words small{"--set", "problem.sequence=4K"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("simulate: the page has every operation, the critical path, and the numbers of the result") {
  const TemporaryFolder folder;
  const Made made = make(folder, with({"simulate", some_scenario}, small));
  CHECK(made.page.timeline["rows"].size() == made.result["ranks"].size());
  CHECK_FALSE(cplab::testing::decode_chain(made.page.timeline).empty());
  CHECK(contains(made.page.visible, "predicted time"));
  CHECK(made.page.numbers.size() > 10 * made.result["ranks"].size());
  // What --operations adds is in the timeline already.
  const ProgramResult listed =
      run_cplab(with({"simulate", some_scenario, "--operations", "--json", folder.path("all.json")}, small));
  REQUIRE(listed.code == 0);
  std::size_t operations = 0;
  for (std::size_t row = 0; row < made.page.timeline["rows"].size(); ++row)
    operations += cplab::testing::decode_boxes(made.page.timeline, row).size();
  CHECK(operations == json::parse(read_file(folder.path("all.json")))["operations"].size());
}

TEST_CASE("run: measured, with the critical path that its times leave, and what that can say") {
  const TemporaryFolder folder;
  const Made made = make(folder, {"run", "ring-small", "--device", "cpu", "--iterations", "2"});
  const auto chain = cplab::testing::decode_chain(made.page.timeline);
  REQUIRE_FALSE(chain.empty());
  CHECK(chain.back().end_ns == made.page.timeline["end_ns"].get<std::int64_t>());
  CHECK(contains(made.page.visible, "A run records no reasons"));
  CHECK(contains(made.page.visible, "One thread executes all ranks"));
  double parts_s = 0, shares = 0;
  for (const json& part : made.result["chain_parts"]) {
    CHECK((part["resource"] == "cpu" || part["resource"] == "message" || part["resource"] == "host"));
    parts_s += part["time_s"].get<double>();
  }
  for (const json& share : made.result["chain"]) shares += share.get<double>();
  CHECK(parts_s == doctest::Approx(made.result["time_s"].get<double>()).epsilon(0.5));
  CHECK(shares == doctest::Approx(1));
  CHECK(made.result["chain_communications"].get<int>() > 0);
  CHECK(made.result["chain_undecided"] == 0);  // one clock
  CHECK(contains(made.page.visible, "measured time"));
}

TEST_CASE("check: right with its figures, and wrong with its findings") {
  const TemporaryFolder folder;
  const Made right = make(folder, {"check", some_scenario});
  CHECK(contains(right.page.visible, "The plan is right"));
  const Made wrong = make(folder, {"check", "faults/ring", "--inject", "drop-wait"}, 1);
  CHECK(contains(wrong.page.visible, "The plan is wrong"));
  CHECK(contains(wrong.page.visible, wrong.result["findings"][0]["message"].get<std::string>()));
}

TEST_CASE(
    "compare: both timelines above each other; a trace beneath its prediction, and what is not compared") {
  const TemporaryFolder folder;
  const std::string first = folder.path("a.json"), second = folder.path("b.json"),
                    traces = folder.path("traces");
  const auto simulate = [&](const std::string& file, const Words& more) {
    return run_cplab(with(with({"simulate", some_scenario, "--operations", "--json", file}, small), more))
        .code;
  };
  REQUIRE(simulate(first, {}) == 0);
  REQUIRE(simulate(second, {"--set", "hardware.host.kernel_launch_s=1e-4", "--trace", traces}) == 0);
  const Made made = make(folder, {"compare", first, second});
  CHECK(made.page.timeline["sides"] == json::array({"first", "second"}));
  CHECK(made.page.timeline["rows"].size() == 2 * json::parse(read_file(first))["ranks"].size());

  // Our own trace says what the result says, and so every class is matched without an error.
  const Made beside = make(folder, {"compare", second, traces + "/rank1_trace.json"});
  CHECK(beside.page.timeline["rows"].size() == 2);
  CHECK(contains(beside.page.visible, "not compared"));
  for (const json& segment : beside.result["segments"]) {
    CAPTURE(segment);
    CHECK(std::abs(segment["error"].get<double>()) < 1e-3);
  }
  CHECK(beside.result["segments"].size() == 4);
  CHECK(beside.result["unmatched"].empty());
  for (const json& each : beside.result["classes"]) CHECK(each["matched"] == each["ours"]);
  CHECK(beside.result["streams"].size() >= 2);
}

TEST_CASE("sweep and advise") {
  const TemporaryFolder folder;
  const std::string study =
      folder.write("study.toml",
                   "scenario = \"ring\"\n\n[vary]\n\"problem.sequence\" = [\"4K\", \"8K\"]\n"
                   "\"parallel.algorithm\" = [\"ring\", \"all_gather\"]\n");
  const Made swept = make(folder, {"sweep", study});
  CHECK(contains(swept.page.visible, "Every point"));
  CHECK(swept.page.numbers.size() >= 1 + 5 * swept.result["points"].size());
  const Made advised = make(folder, {"advise", "--model", "llama3-8b", "--gpus", "8", "--sequence", "32K",
                                     "--hardware", "h100x8", "--brief"});
  CHECK(contains(advised.page.visible, "Run "));
  CHECK(contains(advised.page.visible, "Memory of a GPU"));
}

TEST_CASE("a page that cannot be written is exit 3 before the work begins, a command without a page exit 2") {
  const TemporaryFolder folder;
  for (const Words& words : {Words{"simulate", some_scenario}, Words{"run", "ring-small", "--device", "cpu"},
                             Words{"check", some_scenario}, Words{"compare", "no.json", "such.json"},
                             Words{"sweep", "degrees"}, Words{"advise", "no-such-scenario"}}) {
    const std::string nowhere = folder.path("no/such/folder/page.html");
    const ProgramResult ran = run_cplab(with(words, {"--html", nowhere}));
    CAPTURE(words);
    CHECK(ran.code == 3);
    CHECK(ran.out.empty());
    CHECK(contains(ran.err, "--html " + nowhere + ": cannot be written"));
  }
  for (const Words& words : {Words{"verify", "ring-small"}, Words{"show", "ring"}, Words{"list"}}) {
    const ProgramResult ran = run_cplab(with(words, {"--html", folder.path("page.html")}));
    CHECK(ran.code == 2);
    CHECK(contains(ran.err, words[0] + " has no page; simulate, run, compare, check, sweep, advise have"));
  }
  CHECK(run_cplab({"check", some_scenario, "--html", "-"}).code == 2);
  const ProgramResult several =
      run_cplab({"simulate", some_scenario, "--algorithms", "all", "--html", folder.path("page.html")});
  CHECK(several.code == 2);
  CHECK(contains(several.err, "--html: of one algorithm"));
  const ProgramResult traced =
      run_cplab({"simulate", some_scenario, "--algorithms", "all", "--trace", folder.path("t.json")});
  CHECK(traced.code == 2);
  CHECK(contains(traced.err, "--trace: of one algorithm"));
  const std::string file = folder.path("one.json");
  const ProgramResult twice = run_cplab({"check", some_scenario, "--html", file, "--json", file});
  CHECK(twice.code == 2);
  CHECK(contains(twice.err, "writes to that file"));
}
