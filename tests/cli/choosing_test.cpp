// --choose, --choices and the cache of measured choices: everything but the measuring itself, for which a
// machine stands in that has no GPU.
#include "cli/choosing.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>

#include "cli/memory_need.hpp"
#include "tests/cli/program.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::tune;
using kernels::ChoiceWay;

const char* const fused = "attend_backward hopper fused bf16 64";
const char* const ordered = "attend_backward hopper ordered bf16 64";

const Machine h200{"NVIDIA H200", "9.0", 132, "580.159.04, CUDA 13.0", "13.0", "0123456789abcdef"};

// A GPU on which additions in turn are fastest, and `wrong` is wrong.
struct FakeMachine {
  std::string wrong;
  int benches = 0, checks = 0;
  Machine machine = h200;

  struct FakeBench final : Bench {
    explicit FakeBench(FakeMachine& of_) : of(of_) {}
    FakeMachine& of;
    bool capturing() const override { return false; }
    std::string check(const Call&, std::string_view variant) override {
      ++of.checks;
      return variant == of.wrong ? "dq: relative error 0.3" : "";
    }
    double sample_s(const Call&, std::string_view variant) override {
      return variant.find("ordered") != std::string_view::npos ? 1e-5 : 2e-5;
    }
  };
  TuningMachine tuning() {
    return {.here = [this] { return machine; },
            .variants = [] { return kernels::cuda::VariantOptions{.sm_major = 9, .sms = 132, .build = {}}; },
            .bench =
                [this](const auto&) {
                  ++benches;
                  return std::make_unique<FakeBench>(*this);
                }};
  }
};

struct Choosing {
  std::string path() const { return folder.path("cache/choices.json"); }
  std::string content() const { return read_file(path()); }
  void put(const std::string& text) const {
    std::filesystem::create_directories(folder.path("cache"));
    folder.write("cache/choices.json", text);
  }
  kernels::cuda::MeasuredChoices measure(FakeMachine& machine) {
    said.clear();
    return measured_choices(plan, path(), ChoiceWay::hybrid, machine.tuning(),
                            [&](const std::string& text) { said += text + "\n"; });
  }

  TemporaryFolder folder;
  Plan plan = plan_of(parse_scenario(R"([problem]
sequence = 1024
heads = 4
head_size = 64
dtype = "bf16"
mask = "causal"
[parallel]
ranks = 2
algorithm = "ring")",
                                     "test", {}),
                      PlanUse::simulate);
  std::string said;
};

}  // namespace

TEST_CASE_FIXTURE(Choosing, "classes of a plan's calls are measured once, kept, and used again") {
  FakeMachine machine;
  const auto first = measure(machine);
  CHECK_FALSE(first.all().empty());
  CHECK(said.find("measuring kernels for attend_backward bf16->fp32 D64") != std::string::npos);
  int backward = 0;
  for (const auto& [call, variant] : first.all())
    if (call.starts_with("attend_backward")) {
      ++backward;
      CHECK(variant == ordered);
    }
  CHECK(backward > 0);
  const int checks = machine.checks;
  const auto again = measure(machine);
  CHECK(again.all() == first.all());
  CHECK(machine.checks == checks);
  CHECK(said.empty());
  CHECK(contradictions(read_choices(path())).empty());
  // No temporary file stays beside it.
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path("cache")), {}) == 1);
}

TEST_CASE_FIXTURE(Choosing, "a wrong kernel is named and not taken, though it is fastest") {
  FakeMachine machine{.wrong = ordered};
  const auto choices = measure(machine);
  for (const auto& [call, variant] : choices.all()) CHECK(variant != ordered);
  CHECK(said.find(std::string("note: ") + ordered + " is wrong for") != std::string::npos);
}

TEST_CASE_FIXTURE(Choosing,
                  "a file of another machine, driver or build is reported, not used and not written") {
  FakeMachine machine;
  measure(machine);
  const std::string before = content();
  for (const auto& [other, text] : std::map<std::string, Machine>{
           {"gpu is NVIDIA H200, here NVIDIA H100",
            {"NVIDIA H100", "9.0", 132, h200.driver, "13.0", h200.kernels}},
           {"sms is 132, here 114", {"NVIDIA H200", "9.0", 114, h200.driver, "13.0", h200.kernels}},
           {"kernels is 0123456789abcdef, here 0", {"NVIDIA H200", "9.0", 132, h200.driver, "13.0", "0"}}}) {
    FakeMachine elsewhere;
    elsewhere.machine = text;
    CHECK(measure(elsewhere).all().empty());
    CHECK(elsewhere.benches == 0);
    CHECK(said.find("not used: measured elsewhere, " + other) != std::string::npos);
    CHECK(said.find("kernels are chosen by the table") != std::string::npos);
    CHECK(content() == before);
  }
}

TEST_CASE_FIXTURE(Choosing,
                  "kernels of dynamic mask attention and of linear attention are not chosen between") {
  for (const std::string scenario : {"dynamic-mask", "linear-scan"}) {
    CAPTURE(scenario);
    plan = plan_of(read_scenario(scenario, {}), PlanUse::simulate);
    CHECK(AttentionCalls(plan, [](const std::string&) {}).calls.empty());
    FakeMachine machine;
    CHECK(measure(machine).all().empty());
    CHECK(machine.checks == 0);
    CHECK(said == "note: the plan has no softmax attention: nothing to choose\n");
  }
}

TEST_CASE_FIXTURE(Choosing, "a damaged file is reported, not used and not written") {
  FakeMachine machine;
  measure(machine);
  const std::string whole = content();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    REQUIRE(text.find(from) != std::string::npos);
    return text.replace(text.find(from), from.size(), to);
  };
  for (const std::string& text :
       {std::string(), std::string("{"), whole.substr(0, whole.size() / 2),
        changed("cplab.choices.1", "cplab.choices.9"),
        changed("\"standing\": \"timed\"", "\"standing\": \"fine\""), changed(fused, "attend_backward quick"),
        changed("\"samples\": [", "\"samples\": [-"), changed("\"call\": \"", "\"call\": \"\\n"),
        changed("\"sms\": 132", "\"sms\": \"132\"")}) {
    put(text);
    FakeMachine again;
    CHECK(measure(again).all().empty());
    CHECK(again.benches == 0);
    CHECK(said.find("choices.json") != std::string::npos);
    CHECK(said.find("not used (cplab tune --fresh replaces it)") != std::string::npos);
    CHECK(content() == text);
  }
}

TEST_CASE_FIXTURE(Choosing, "where there is no place for a cache nothing is measured") {
  FakeMachine machine;
  said.clear();
  const auto choices = measured_choices(plan, "", ChoiceWay::autotune, machine.tuning(),
                                        [&](const std::string& text) { said += text; });
  CHECK(choices.all().empty());
  CHECK(machine.benches == 0);
  CHECK(said.find("no place for measured choices") != std::string::npos);
}

TEST_CASE_FIXTURE(Choosing, "a file that cannot be written does not keep the choices from being used") {
  folder.write("cache", "a file where the folder would be");
  FakeMachine machine;
  CHECK_FALSE(measure(machine).all().empty());
  CHECK(said.find("note: what was measured is not kept") != std::string::npos);
}

TEST_CASE_FIXTURE(Choosing, "tune --show and --verify read the file, and contradictions are exit 1") {
  FakeMachine machine;
  measure(machine);
  setenv("COLUMNS", "400", 1);  // names are not folded
  const ProgramResult shown = run_cplab({"tune", "--show", "--choices", path()});
  unsetenv("COLUMNS");
  CHECK(shown.code == 0);
  CHECK(shown.out.find(ordered) != std::string::npos);
  CHECK(run_cplab({"tune", "--verify", "--choices", path()}).code != 2);  // on a GPU: measured elsewhere
  ChoicesFile file = read_choices(path());
  REQUIRE_FALSE(file.decisions.empty());
  for (Decision& decision : file.decisions)
    if (decision.call.starts_with("attend_backward"))
      decision.variant = fused;  // slower than what was measured
  write_choices(path(), file);
  const ProgramResult wrong = run_cplab({"tune", "--verify", "--choices", path()});
  CHECK(wrong.code == 1);
  CHECK(wrong.out.find(std::string(ordered) + " is faster") != std::string::npos);
  put("{}");
  CHECK(run_cplab({"tune", "--show", "--choices", path()}).code == 2);
  CHECK(run_cplab({"tune", "ring-small", "--show"}).code == 2);
  CHECK(run_cplab({"tune", "--show", "--rounds", "3"}).code == 2);
  CHECK(run_cplab({"tune"}).code == 2);
}

TEST_CASE_FIXTURE(Choosing, "simulate takes what was measured on such a GPU") {
  FakeMachine machine;
  measure(machine);
  const auto simulate = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {
        "simulate", "ring-h200",           "--set", "hardware.file=hardware/h200x4.toml",
        "--set",    "problem.sequence=1K", "--set", "problem.heads=4",
        "--set",    "problem.kv_heads=4",  "--set", "problem.head_size=64",
        "--set",    "parallel.ranks=2"};
    words.insert(words.end(), more.begin(), more.end());
    return run_cplab(words);
  };
  CHECK(simulate({}).out.find(fused) != std::string::npos);
  CHECK(simulate({"--choose", "static"}).out == simulate({}).out);
  const ProgramResult without = simulate({"--choose", "hybrid"});
  CHECK(without.err.find("--choices FILE has what was measured") != std::string::npos);
  CHECK(without.out == simulate({}).out);
  const ProgramResult with = simulate({"--choose", "hybrid", "--choices", path()});
  CHECK(with.out.find(ordered) != std::string::npos);
  CHECK(with.out.find(fused) == std::string::npos);
  const ProgramResult elsewhere =
      simulate({"--choose", "hybrid", "--choices", path(), "--set", "hardware.gpu.sms=114"});
  CHECK(elsewhere.err.find("measured on NVIDIA H200 with 132 multiprocessors") != std::string::npos);
  CHECK(simulate({"--choices", path()}).code == 2);
  CHECK(simulate({"--choose", "fastest"}).code == 2);
  CHECK(simulate({"--choose", "hybrid", "--choices", "no-such-file"}).code == 2);
}

TEST_CASE("the way is chosen for GPUs alone") {
  const ProgramResult cpu = run_cplab({"run", "ring-small", "--device", "cpu", "--choose", "hybrid"});
  CHECK(cpu.code == 2);
  CHECK(cpu.err.find("--choose: for --device gpu only") != std::string::npos);
  CHECK(run_cplab({"verify", "ring-small", "--choices", "x"}).code == 2);
}

}  // namespace cplab::testing
