// The cases that broke real implementations, by name, on random data and on one-hot values: with V one-hot by
// position, out is the row of probabilities itself, and a key too many or too few cannot hide in an average.
#include <doctest/doctest.h>

#include <string_view>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "cli/verify/verify.hpp"
#include "tests/exec/scenarios.hpp"
#include "tests/scenarios/choices.hpp"
#include "tests/scenarios/scenarios_of.hpp"

namespace cplab {
namespace {

struct HardCase {
  const char* name;
  ScenarioSpec spec;
};

ScenarioSpec packed(std::int64_t ranks, std::vector<std::int64_t> lengths,
                    std::vector<std::int64_t> padded = {}) {
  ScenarioSpec spec;
  spec.ranks = ranks;
  spec.lengths = std::move(lengths);
  spec.padded_lengths = std::move(padded);
  return spec;
}

std::vector<HardCase> hard_cases() {
  std::vector<HardCase> cases{
      {"TransformerEngine 3331: 698 padded to 704 on 4 ranks", packed(4, {698}, {704})},
      {"TransformerEngine 1930: 7 padded to 8 on 2 ranks, the last token", packed(2, {7}, {8})},
      {"TransformerEngine 2186: second chunks that are pure padding",
       packed(2, {9, 8, 8, 12, 8, 12}, {12, 8, 8, 12, 8, 12})},
      {"all second chunks are padding", packed(4, {4, 3, 2, 1}, {16, 16, 16, 16})},
      {"lengths 0, 1, 2P-1, 2P, 2P+1", packed(4, {0, 1, 7, 8, 9})},
      {"every length 0", packed(3, {0, 0})},
      {"every length 0, padded", packed(2, {0, 0}, {8, 3})},
      {"more ranks than tokens", packed(8, {3, 1})},
  };
  ScenarioSpec one_row;
  one_row.ranks = 4;
  one_row.sequence = 4;
  one_row.placement =
      "striped";  // tiles against later stripes exclude the diagonal: with one row nothing is left
  cases.push_back({"striped, one row a rank", one_row});
  ScenarioSpec window;
  window.ranks = 2;
  window.lengths = {2, 11};
  window.padded_lengths = {8, 12};
  window.causal = false;
  window.window = {3, 3};  // each sequence needs its own diagonal offsets
  cases.push_back({"window (3,3) over sequences of unlike length", window});
  return cases;
}

// V[t] = e_{t mod E} for every token of every sequence and head.
void make_one_hot(const Problem& p, Inputs& inputs) {
  const auto E = static_cast<std::size_t>(p.value_size), G = static_cast<std::size_t>(p.kv_heads);
  std::size_t token = 0;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    for (std::int64_t t = 0; t < p.padded_lengths[b]; ++t, ++token) {
      if (t >= p.lengths[b]) continue;  // padding stays NaN
      for (std::size_t i = 0; i < G * E; ++i)
        inputs["v"].values[token * G * E + i] = i % E == static_cast<std::size_t>(t) % E ? 1 : 0;
    }
  }
}

// On random and on one-hot data.
void verify_both(const Plan& plan) {
  Inputs inputs = random_inputs(plan.scenario.problem, 3);
  for (const bool one_hot : {false, true}) {
    if (one_hot) make_one_hot(plan.scenario.problem, inputs);
    VerifyOptions options;
    options.execution.order = {true, 17};
    const VerifyResult result = verify(plan, inputs, options);
    CAPTURE(one_hot);
    for (const Finding& f : result.findings) FAIL_CHECK(f.message);
    CHECK(result.ok());
    CHECK(result.tensors.size() == 5 * plan.ranks.size());
  }
}

// Whether softmax attention takes it: some options are of linear attention.
bool is_of_softmax(const Algorithm& algorithm, const testing::Value& value) {
  Scenario s = testing::any_scenario(4, std::string(algorithm.name));
  s.schedule = {};
  value.choose(s);
  try {
    (void)testing::resolve_with_heads(s);
    return true;
  } catch (const ScenarioError&) {
    return false;
  }
}

// The values of the option, or of the options that restrict each other, that have the most: in ring attention
// how partial results are merged. Pairs of options are tests/properties' business.
std::vector<testing::Value> schedules_of(const Algorithm& algorithm) {
  std::vector<testing::Value> most{{"default", [](Scenario&) {}}};
  for (testing::Dimension& d : testing::option_dimensions(algorithm, false)) {
    std::erase_if(d.values, [&](const testing::Value& v) { return !is_of_softmax(algorithm, v); });
    if (d.values.size() > most.size()) most = d.values;
  }
  return most;
}

// Of the schedules that a hard case is run with, by turns.
const std::size_t every_nth = testing::each_value_once() ? 6 : 1;

// The algorithms whose number in the list is `part` modulo `parts`.
void verify_hard_cases(std::size_t part, std::size_t parts) {
  const auto algorithms = testing::algorithms_for(Attention::softmax);
  for (std::size_t n = part; n < algorithms.size(); n += parts) {
    const Algorithm& algorithm = algorithms[n];
    const std::vector<testing::Value> schedules = schedules_of(algorithm);
    for (const HardCase& hard : hard_cases()) {
      std::size_t number = 0;  // dtypes by turns: every schedule has both over the placements
      for (const std::string_view placement : algorithm.placements) {
        ++number;
        if (!hard.spec.placement.empty() && placement != hard.spec.placement) continue;
        ScenarioSpec spec = hard.spec;
        spec.algorithm = algorithm.name;
        spec.placement = placement;
        spec.value_size = 16;
        for (std::size_t s = number % every_nth; s < schedules.size(); s += every_nth) {
          const testing::Value& schedule = schedules[s];
          spec.dtype = number++ % 2 == 0 ? DType::fp64 : DType::bf16;
          CAPTURE(algorithm.name);
          CAPTURE(hard.name);
          CAPTURE(placement);
          CAPTURE(schedule.name);
          Scenario wanted = scenario(spec);
          wanted.schedule = {};
          schedule.choose(wanted);
          verify_both(build_plan(testing::resolve_with_heads(wanted)));
        }
      }
    }
  }
}

}  // namespace

// Three cases, which run side by side and each within the time that a test has under the sanitizers.
TEST_CASE("hard cases pass on random and on one-hot data, in every placement: algorithms 1, 4, ...") {
  verify_hard_cases(0, 3);
}
TEST_CASE("hard cases pass on random and on one-hot data, in every placement: algorithms 2, 5, ...") {
  verify_hard_cases(1, 3);
}
TEST_CASE("hard cases pass on random and on one-hot data, in every placement: algorithms 3, 6, ...") {
  verify_hard_cases(2, 3);
}

}  // namespace cplab
