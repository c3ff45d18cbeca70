// Measuring candidates, with a bench that has no GPU: what is checked, timed and taken, in which order.
#include "kernels/tune/tuner.hpp"

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/tune/machine.hpp"
#include "kernels/tune/sampled_rows.hpp"
#include "tests/kernels/backward_names.hpp"
#include "tests/kernels/chosen_variant.hpp"
#include "tests/kernels/square_call.hpp"

namespace cplab::testing {
namespace {

using namespace kernels;
using namespace kernels::cuda;
using namespace kernels::tune;

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

struct TunedCall {
  explicit TunedCall(const testing::Call& shape = {}) : segments(shape.segments()) {
    call = backward(shape, segments);
  }
  std::vector<Segment> segments;
  kernels::tune::Call call;
};

TuneOptions options_of(ChoiceWay way) {
  return {.way = way, .variants = on_hopper};
}

const Tried& tried_of(const Decision& decision, std::string_view variant) {
  for (const Tried& each : decision.tried)
    if (each.candidate.variant == variant) return each;
  FAIL("not tried: " << variant);
  return decision.tried.front();
}

}  // namespace

TEST_CASE("the candidate with the least time is taken") {
  const TunedCall problem;
  FakeBench bench;
  bench.seconds = {{fused_kernel, 3e-3}, {ordered_kernel, 2e-3}, {apart_kernel, 4e-3}, {mma_kernel, 5e-3}};
  const Decision decision = tune_one(problem.call, options_of(ChoiceWay::autotune), bench);
  CHECK(decision.variant == ordered_kernel);
  CHECK(decision.not_measured.empty());
  CHECK(tried_of(decision, ordered_kernel).samples.size() == 7);
  CHECK(tried_of(decision, ordered_kernel).median_s() == 2e-3);
  CHECK(tried_of(decision, "attend_backward general").standing ==
        Standing::left_out);  // 50 times as slow by the model
  CHECK_FALSE(bench.checked.contains("attend_backward general"));
}

TEST_CASE("a wrong candidate is never timed and never taken, however fast") {
  const TunedCall problem;
  for (const ChoiceWay way : {ChoiceWay::autotune, ChoiceWay::hybrid})
    for (const char* planted : {fused_kernel, apart_kernel, ordered_kernel}) {
      CAPTURE(planted);
      FakeBench bench;
      bench.seconds = {{planted, 1e-9}};
      bench.wrong = {planted};
      const Decision decision = tune_one(problem.call, options_of(way), bench);
      CHECK(decision.variant != planted);
      CHECK(tried_of(decision, planted).standing == Standing::wrong);
      CHECK(tried_of(decision, planted).reason == "dq: relative error 0.3");
      CHECK(tried_of(decision, planted).samples.empty());
      CHECK_FALSE(bench.timed.contains(planted));
    }
}

TEST_CASE("if no candidate is right nothing is taken") {
  const TunedCall problem;
  FakeBench bench;
  bench.wrong = {fused_kernel, fused_small_kernel, ordered_kernel,
                 apart_kernel, mma_kernel,         mma_small_kernel};
  CHECK_THROWS_AS(tune_one(problem.call, options_of(ChoiceWay::autotune), bench), NoRightKernel);
  bench.wrong = {fused_small_kernel, ordered_kernel, apart_kernel, mma_kernel, mma_small_kernel};
  bench.broken = {fused_kernel};
  CHECK_THROWS_AS(tune_one(problem.call, options_of(ChoiceWay::autotune), bench), NoRightKernel);
}

TEST_CASE("what cannot be launched is refused, and the rest is measured") {
  const TunedCall problem;
  FakeBench bench;
  bench.broken = {fused_kernel};
  bench.seconds = {{fused_small_kernel, 3}, {ordered_kernel, 2}, {apart_kernel, 1}};
  const Decision decision = tune_one(problem.call, options_of(ChoiceWay::autotune), bench);
  CHECK(tried_of(decision, fused_kernel).standing == Standing::refused);
  CHECK(tried_of(decision, fused_kernel).reason == "invalid configuration argument");
  CHECK(decision.variant == apart_kernel);
  bench.seconds = {{ordered_kernel, 0}, {apart_kernel, 1}, {mma_kernel, 2}};  // a time that is none
  CHECK(tried_of(tune_one(problem.call, options_of(ChoiceWay::autotune), bench), ordered_kernel).standing ==
        Standing::refused);
}

TEST_CASE("the table's choice keeps its place where another is hardly faster") {
  const TunedCall problem;
  FakeBench bench;
  bench.seconds = {{fused_kernel, 1.000}, {ordered_kernel, 0.995}};
  CHECK(tune_one(problem.call, options_of(ChoiceWay::autotune), bench).variant == fused_kernel);
  bench.seconds = {{fused_kernel, 1.000}, {ordered_kernel, 0.985}};
  CHECK(tune_one(problem.call, options_of(ChoiceWay::autotune), bench).variant == ordered_kernel);
}

TEST_CASE("hybrid measures the few that the model calls fastest, the table's among them") {
  const TunedCall problem;
  FakeBench bench;
  bench.seconds = {{mma_kernel, 1e-9}};  // 2.6 times as slow by the model: not asked
  const Decision decision = tune_one(problem.call, options_of(ChoiceWay::hybrid), bench);
  CHECK(bench.checked == std::set<std::string, std::less<>>{fused_kernel, apart_kernel, ordered_kernel});
  CHECK(tried_of(decision, mma_kernel).standing == Standing::left_out);
  TuneOptions two = options_of(ChoiceWay::hybrid);
  two.candidates = 2;
  // With full masks of 1024 tokens the table and the model put tiles apart before additions in turn.
  two.variants.choice = KernelChoice::deterministic;
  FakeBench other;
  tune_one(TunedCall({.S = 1024, .causal = false}).call, two, other);
  CHECK(other.checked == std::set<std::string, std::less<>>{ordered_kernel, apart_kernel});
}

TEST_CASE("nothing is launched while a stream is captured, and nothing where there is nothing to decide") {
  FakeBench bench;
  bench.captures = true;
  const Decision captured = tune_one(TunedCall().call, options_of(ChoiceWay::autotune), bench);
  CHECK(captured.variant == fused_kernel);
  CHECK(captured.not_measured == "a stream is being captured into a graph");
  CHECK(bench.checked.empty());
  bench.captures = false;
  const Decision single =
      tune_one(TunedCall({.dtype = DType::fp32}).call, options_of(ChoiceWay::autotune), bench);
  CHECK(single.variant == "attend_backward general");
  CHECK(single.not_measured == "the only kernel that takes it");
  CHECK(bench.checked.empty());
}

TEST_CASE("each class is measured once, and what is known is not measured again") {
  const TunedCall small({.S = 1024}), again({.S = 1000}), large({.S = 8192});
  const std::vector<kernels::tune::Call> calls = {small.call, large.call, again.call};
  MeasuredChoices known;
  FakeBench bench;
  bench.seconds = {{apart_kernel, 0.5}};
  std::vector<std::string> told;
  const auto tell = [&](const std::string& which) { told.push_back(which); };
  CHECK(tune_all(calls, options_of(ChoiceWay::hybrid), bench, known, tell).size() == 2);
  CHECK(told.size() == 2);
  CHECK(known.all().size() == 2);
  CHECK(bench.timed[apart_kernel] == 14);
  CHECK(tune_all(calls, options_of(ChoiceWay::hybrid), bench, known, tell).empty());
  bench.captures = true;  // what was not measured is not known
  const TunedCall other({.S = 512});
  CHECK(tune_all(std::vector{other.call}, options_of(ChoiceWay::hybrid), bench, known).size() == 1);
  CHECK(known.all().size() == 2);
  // Those that were measured are those that are chosen.
  VariantOptions options = on_hopper;
  options.way = ChoiceWay::hybrid;
  options.choices = &known;
  CHECK(choose_variant(std::get<AttendBackward>(small.call), options).variant->name == apart_kernel);
  CHECK(choose_variant(std::get<AttendBackward>(other.call), options).variant->name == fused_small_kernel);
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
