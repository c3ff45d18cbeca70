// Measuring candidates, with a bench that has no GPU: what is checked, timed and taken, in which order.
#include "kernels/tune/tuner.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>

#include "kernels/tune/machine.hpp"
#include "kernels/tune/sampled_rows.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels::cuda;
using namespace kernels::tune;

constexpr VariantOptions on_hopper{.sm_major = 9, .sms = 132, .build = {}};
const char* const fused = "attend_backward hopper fused bf16 128";
const char* const fused_small = "attend_backward hopper fused bf16 128, 64 keys";
const char* const ordered = "attend_backward hopper ordered bf16 128";
const char* const apart = "attend_backward hopper bf16 128";
const char* const mma = "attend_backward mma bf16 128";
const char* const mma_small = "attend_backward mma bf16 128, small tiles";

// Every candidate takes `seconds[name]` (1 if it is not there); those in `wrong` are wrong, those in `broken`
// cannot be launched. Counts what it is asked.
struct FakeBench final : Bench {
  std::map<std::string, double, std::less<>> seconds;
  std::set<std::string, std::less<>> wrong, broken, checked;
  std::map<std::string, int, std::less<>> timed;
  bool captures = false;

  bool capturing() const override { return captures; }
  std::string check(const kernels::tune::Call&, std::string_view variant) override {
    checked.emplace(variant);
    if (broken.contains(variant)) throw std::runtime_error("invalid configuration argument");
    return wrong.contains(variant) ? "dq: relative error 0.3" : "";
  }
  double sample_s(const kernels::tune::Call&, std::string_view variant) override {
    CHECK_MESSAGE(checked.contains(variant), "timed before it was checked");
    CHECK_MESSAGE(!wrong.contains(variant), "timed although it is wrong");
    ++timed[std::string(variant)];
    const auto found = seconds.find(variant);
    return found == seconds.end() ? 1 : found->second;
  }
};

struct Problem {
  explicit Problem(const testing::Call& shape = {}) : segments(shape.segments()) {
    call = backward(shape, segments);
  }
  std::vector<Segment> segments;
  kernels::tune::Call call;
};

TuneOptions in_way(ChoiceWay way) {
  return {.way = way, .variants = on_hopper};
}

const Tried& of(const Decision& decision, std::string_view variant) {
  for (const Tried& each : decision.tried)
    if (each.candidate.variant == variant) return each;
  FAIL("not tried: " << variant);
  return decision.tried.front();
}

}  // namespace

TEST_CASE("the candidate with the least time is taken") {
  const Problem problem;
  FakeBench bench;
  bench.seconds = {{fused, 3e-3}, {ordered, 2e-3}, {apart, 4e-3}, {mma, 5e-3}};
  const Decision decision = tune_one(problem.call, in_way(ChoiceWay::autotune), bench);
  CHECK(decision.variant == ordered);
  CHECK(decision.not_measured.empty());
  CHECK(of(decision, ordered).samples.size() == 7);
  CHECK(of(decision, ordered).median_s() == 2e-3);
  CHECK(of(decision, "attend_backward general").standing ==
        Standing::left_out);  // 50 times as slow by the model
  CHECK_FALSE(bench.checked.contains("attend_backward general"));
}

TEST_CASE("a wrong candidate is never timed and never taken, however fast") {
  const Problem problem;
  for (const ChoiceWay way : {ChoiceWay::autotune, ChoiceWay::hybrid})
    for (const char* planted : {fused, apart, ordered}) {
      CAPTURE(planted);
      FakeBench bench;
      bench.seconds = {{planted, 1e-9}};
      bench.wrong = {planted};
      const Decision decision = tune_one(problem.call, in_way(way), bench);
      CHECK(decision.variant != planted);
      CHECK(of(decision, planted).standing == Standing::wrong);
      CHECK(of(decision, planted).reason == "dq: relative error 0.3");
      CHECK(of(decision, planted).samples.empty());
      CHECK_FALSE(bench.timed.contains(planted));
    }
}

TEST_CASE("if no candidate is right nothing is taken") {
  const Problem problem;
  FakeBench bench;
  bench.wrong = {fused, fused_small, ordered, apart, mma, mma_small};
  CHECK_THROWS_AS(tune_one(problem.call, in_way(ChoiceWay::autotune), bench), NoRightKernel);
  bench.wrong = {fused_small, ordered, apart, mma, mma_small};
  bench.broken = {fused};
  CHECK_THROWS_AS(tune_one(problem.call, in_way(ChoiceWay::autotune), bench), NoRightKernel);
}

TEST_CASE("what cannot be launched is refused, and the rest is measured") {
  const Problem problem;
  FakeBench bench;
  bench.broken = {fused};
  bench.seconds = {{fused_small, 3}, {ordered, 2}, {apart, 1}};
  const Decision decision = tune_one(problem.call, in_way(ChoiceWay::autotune), bench);
  CHECK(of(decision, fused).standing == Standing::refused);
  CHECK(of(decision, fused).reason == "invalid configuration argument");
  CHECK(decision.variant == apart);
  bench.seconds = {{ordered, 0}, {apart, 1}, {mma, 2}};  // a time that is none
  CHECK(of(tune_one(problem.call, in_way(ChoiceWay::autotune), bench), ordered).standing ==
        Standing::refused);
}

TEST_CASE("the table's choice keeps its place where another is hardly faster") {
  const Problem problem;
  FakeBench bench;
  bench.seconds = {{fused, 1.000}, {ordered, 0.995}};
  CHECK(tune_one(problem.call, in_way(ChoiceWay::autotune), bench).variant == fused);
  bench.seconds = {{fused, 1.000}, {ordered, 0.985}};
  CHECK(tune_one(problem.call, in_way(ChoiceWay::autotune), bench).variant == ordered);
}

TEST_CASE("hybrid measures the few that the model calls fastest, the table's among them") {
  const Problem problem;
  FakeBench bench;
  bench.seconds = {{mma, 1e-9}};  // 2.6 times as slow by the model: not asked
  const Decision decision = tune_one(problem.call, in_way(ChoiceWay::hybrid), bench);
  CHECK(bench.checked == std::set<std::string, std::less<>>{fused, apart, ordered});
  CHECK(of(decision, mma).standing == Standing::left_out);
  TuneOptions two = in_way(ChoiceWay::hybrid);
  two.candidates = 2;
  // With full masks of 1024 tokens the table and the model put tiles apart before additions in turn.
  two.variants.choice = KernelChoice::deterministic;
  FakeBench other;
  tune_one(Problem({.S = 1024, .causal = false}).call, two, other);
  CHECK(other.checked == std::set<std::string, std::less<>>{ordered, apart});
}

TEST_CASE("nothing is launched while a stream is captured, and nothing where there is nothing to decide") {
  FakeBench bench;
  bench.captures = true;
  const Decision captured = tune_one(Problem().call, in_way(ChoiceWay::autotune), bench);
  CHECK(captured.variant == fused);
  CHECK(captured.not_measured == "a stream is being captured into a graph");
  CHECK(bench.checked.empty());
  bench.captures = false;
  const Decision single = tune_one(Problem({.dtype = DType::fp32}).call, in_way(ChoiceWay::autotune), bench);
  CHECK(single.variant == "attend_backward general");
  CHECK(single.not_measured == "the only kernel that takes it");
  CHECK(bench.checked.empty());
}

TEST_CASE("each class is measured once, and what is known is not measured again") {
  const Problem small({.S = 1024}), again({.S = 1000}), large({.S = 8192});
  const std::vector<kernels::tune::Call> calls = {small.call, large.call, again.call};
  MeasuredChoices known;
  FakeBench bench;
  bench.seconds = {{apart, 0.5}};
  std::vector<std::string> told;
  const auto tell = [&](const std::string& which) { told.push_back(which); };
  CHECK(tune_all(calls, in_way(ChoiceWay::hybrid), bench, known, tell).size() == 2);
  CHECK(told.size() == 2);
  CHECK(known.all().size() == 2);
  CHECK(bench.timed[apart] == 14);
  CHECK(tune_all(calls, in_way(ChoiceWay::hybrid), bench, known, tell).empty());
  bench.captures = true;  // what was not measured is not known
  const Problem other({.S = 512});
  CHECK(tune_all(std::vector{other.call}, in_way(ChoiceWay::hybrid), bench, known).size() == 1);
  CHECK(known.all().size() == 2);
  // Those that were measured are those that are chosen.
  VariantOptions options = on_hopper;
  options.way = ChoiceWay::hybrid;
  options.choices = &known;
  CHECK(choose_variant(std::get<AttendBackward>(small.call), options).variant->name == apart);
  CHECK(choose_variant(std::get<AttendBackward>(other.call), options).variant->name == fused_small);
}

TEST_CASE("times of another machine, driver or build say in what they differ") {
  const Machine here{"NVIDIA H200", "9.0", 132, "580.159.04", "13.0", "0123"};
  CHECK(difference(here, here).empty());
  Machine other = here;
  other.sms = 114;
  CHECK(difference(other, here) == "sms is 114, here 132");
  other = here;
  other.kernels = "4567";
  CHECK(difference(other, here) == "kernels is 4567, here 0123");
  other.gpu = "NVIDIA H100";
  CHECK(difference(other, here) == "gpu is NVIDIA H100, here NVIDIA H200");
}

}  // namespace cplab::testing
