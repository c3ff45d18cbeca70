// Can anything wrong slip past the checker? Random mutations of right plans of every algorithm: each must be
// found by it, or be shown to change nothing: bit-equal results under 20 random orders. A mutant that adds
// the same terms in another order is bit-equal to itself, not to the clean plan; it must also agree with the
// reference to 1e-12 in fp64.
//   build/release/mutants [COUNT [FIRST_SEED]] [--algorithm NAME]
// Prints how each kind of mutation was caught, and every mutant that neither was caught nor is equivalent.
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "check/check.hpp"
#include "cli/verify/verify.hpp"
#include "tests/grid/arguments.hpp"
#include "tests/grid/draw_options.hpp"
#include "tests/hand_plans/random_mutation.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;

namespace {

Scenario scenario_of(const Algorithm& algorithm, std::uint64_t seed) {
  Scenario s;
  Problem& p = s.problem;
  const std::uint64_t options = testing::scattered(seed);
  const auto pick = [&seed](std::size_t n) {
    const std::size_t i = seed % n;
    seed /= n;
    return i;
  };
  s.parallel.ranks = std::int64_t{2} + static_cast<std::int64_t>(pick(4));
  s.placement = testing::draw_placement(algorithm, pick(testing::placement_numbers(algorithm)));
  p.causal = pick(4) != 0;
  p.packed = pick(2) != 0;
  p.batch = p.packed ? 0 : 1;
  p.sequence = p.packed ? 0 : 8 * s.parallel.ranks;
  p.lengths = p.packed ? std::vector<std::int64_t>{13, 4, 9} : std::vector<std::int64_t>{p.sequence};
  p.padded_lengths = p.packed ? std::vector<std::int64_t>{16, 4, 9} : p.lengths;
  p.format = p.packed ? Format::thd : Format::bshd;
  p.heads = 4;
  p.kv_heads = 2;  // strides of heads have something to cut
  p.head_size = 8;
  p.value_size = 4;
  p.dtype = DType::fp32;
  p.scale = 0.35;
  testing::suit(p, std::string(algorithm.name));
  p.max_logit = s.parallel.ranks % 2 == 1 && p.attention == Attention::softmax;
  return testing::draw_options(std::move(s), algorithm, options);
}

// Executes under 20 random orders. The answer is "WRONG: ..." if verification fails, "VARIES" if the orders
// give different bits, "same" if all give the bits of `right`, else "other".
std::string run_orders(const Plan& mutant, const Inputs& inputs, const Outputs& right) {
  std::optional<Outputs> first;
  for (std::uint64_t order = 0; order < 20; ++order) {
    VerifyOptions options;
    options.execution.order = {true, order};
    VerifyResult result = verify(mutant, inputs, options);
    if (!result.ok()) return "WRONG: " + std::string(name(result.findings.front().kind));
    if (!first)
      first = std::move(result.outputs);
    else if (!first->same_bits(*result.outputs))
      return "VARIES";
  }
  return first->same_bits(right) ? "same" : "other";
}

std::string judge(const Algorithm& algorithm, std::uint64_t seed, std::string& text) {
  Scenario scenario = scenario_of(algorithm, seed);
  const auto mutated = [&] {
    Plan plan = build_plan(scenario);
    text = mutate_at_random(plan, seed);
    return plan;
  };
  if (const CheckResult checked = check(mutated()); !checked.ok())
    return "checker: " + std::string(name(checked.findings.front().kind));
  const auto answer = [&] {
    const Inputs inputs = random_inputs(scenario.problem, seed);
    const VerifyResult right = verify(build_plan(scenario), inputs, {});
    return right.ok() ? run_orders(mutated(), inputs, *right.outputs) : "WRONG: the clean plan";
  };
  const std::string in_fp32 = answer();
  if (in_fp32 == "same") return "equivalent: bit-equal under 20 random orders";
  if (in_fp32 != "other") return "ESCAPED the checker: " + in_fp32;
  scenario.problem.dtype = DType::fp64;  // built the same: in fp32 as in fp64 nominal and wide are one dtype
  const std::string in_fp64 = answer();
  return in_fp64 == "same" || in_fp64 == "other"
             ? "equivalent: another order of one sum; bit-equal to itself under 20 orders, 1e-12 in fp64"
             : "ESCAPED: " + in_fp64;
}

// Mutants of one algorithm's plans; prints the table, and returns how many escaped.
int run(const Algorithm& algorithm, std::uint64_t count, std::uint64_t first) {
  std::map<std::string, std::map<std::string, int>> table;  // kind of mutation -> verdict -> how many
  int escaped = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    std::string text;
    const std::string verdict = judge(algorithm, seed, text);
    ++table[text.substr(text.rfind(':') + 2)][verdict];
    if (verdict.rfind("ESCAPED", 0) != 0) continue;
    ++escaped;
    std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed), text.c_str(), verdict.c_str());
  }
  for (const auto& [kind, verdicts] : table) {
    std::printf("%s\n", kind.c_str());
    for (const auto& [verdict, n] : verdicts) std::printf("  %5d  %s\n", n, verdict.c_str());
  }
  std::printf("%llu mutants, %d neither caught nor equivalent\n", static_cast<unsigned long long>(count),
              escaped);
  return escaped;
}

}  // namespace

int main(int argc, char** argv) {
  const auto [only, numbers] = testing::algorithm_and_numbers(argc, argv, {1000, 1});
  int escaped = 0;
  for (const Algorithm& algorithm : algorithms()) {
    if (only && &algorithm != only) continue;
    if (!only && algorithms().size() > 1) std::printf("%s:\n", std::string(algorithm.name).c_str());
    escaped += run(algorithm, numbers[0], numbers[1]);
  }
  return escaped ? 1 : 0;
}
