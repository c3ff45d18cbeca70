// Checks plans of every algorithm in bulk and prints how many, how large and how long: the default form at
// every P in 1..64, and every option value, placement and mask varied alone at P 1..16, 24, 32, 48, 64,
// forward and backward.
//   build/release/check_sweep [LARGEST_P [PARTS]] [--algorithm NAME]
// PARTS: one of so many plans, chosen by a hash of what varies.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <set>
#include <string>
#include <vector>

#include "algorithms/core/algorithm.hpp"
#include "algorithms/core/build.hpp"
#include "algorithms/core/list.hpp"
#include "check/check.hpp"
#include "tests/grid/arguments.hpp"
#include "tests/grid/part.hpp"
#include "tests/scenarios/any_scenario.hpp"

using namespace cplab;

namespace {

struct Total {
  int plans = 0, wrong = 0, shortened = 0;
  std::set<std::string> too_large;  // placements of which a plan of the full length cannot be checked
  std::size_t operations = 0;
};

std::string what_varies(const Scenario& s) {
  std::string what = s.algorithm + " " + std::to_string(s.parallel.ranks) + " " + s.placement;
  for (const auto& [key, value] : s.schedule.options) what += " " + key + "=" + to_string(value);
  const Window window = s.problem.band();
  what += " " + std::to_string(window.left) + " " + std::to_string(window.right);
  return s.problem.max_logit ? what + " max_logit" : what;
}

Scenario base(const Algorithm& algorithm, int ranks) {
  Scenario s;
  Problem& p = s.problem;
  p.batch = 1;
  p.sequence = 131072;
  p.lengths = p.padded_lengths = {p.sequence};
  p.heads = 32;
  p.kv_heads = 8;
  p.head_size = p.value_size = 128;
  p.dtype = DType::bf16;
  p.causal = true;
  p.scale = 0.088388347648318447;
  s.parallel.ranks = ranks;
  s.algorithm = algorithm.name;
  testing::suit(p, s.algorithm);
  if (p.attention == Attention::linear) {  // a chunk may be one token
    p.sequence = 4096;
    p.lengths = p.padded_lengths = {p.sequence};
  }
  return s;
}

void check_one(const Scenario& wanted, Total& total) {
  Scenario s;
  try {
    s = testing::resolve_with_heads(wanted);
  } catch (const ScenarioError&) {
    return;  // an option value that needs another one beside it
  }
  if (total.too_large.contains(s.placement)) {
    ++total.shortened;
    s.problem.sequence = 512;
    s.problem.lengths = s.problem.padded_lengths = {512};
  }
  const Plan plan = build_plan(s);
  CheckResult result;
  try {
    result = check(plan);
  } catch (const PlanTooLarge&) {
    // Rows that several ranks of a striped placement send, laid in the order of positions, are one by one to
    // the checker.
    if (!total.too_large.insert(s.placement).second) throw;
    return check_one(wanted, total);
  }
  ++total.plans;
  for (const RankPlan& rank : plan.ranks) total.operations += rank.operations.size();
  if (result.ok()) return;
  ++total.wrong;
  std::printf("wrong: %s P=%lld placement=%s", s.algorithm.c_str(), static_cast<long long>(s.parallel.ranks),
              s.placement.c_str());
  for (const auto& [key, value] : s.schedule.options)
    std::printf(" %s=%s", key.c_str(), to_string(value).c_str());
  std::printf(" window=[%lld,%lld]\n", static_cast<long long>(s.problem.band().left),
              static_cast<long long>(s.problem.band().right));
  for (const Finding& f : result.findings) {
    std::printf("  %s rank %d %s %s: %s\n", std::string(name(f.kind)).c_str(), f.rank, f.operation.c_str(),
                f.buffer.c_str(), f.message.c_str());
    break;
  }
}

// True if every plan is right.
bool sweep(const Algorithm& algorithm, int largest, std::uint64_t parts) {
  const auto start = std::chrono::steady_clock::now();
  Total total;
  const auto run = [&](const Scenario& scenario) {
    if (testing::in_part(what_varies(scenario), parts)) check_one(scenario, total);
  };
  for (int ranks = 1; ranks <= largest; ++ranks) run(base(algorithm, ranks));
  std::vector<int> sizes{24, 32, 48, 64};
  for (int ranks = 16; ranks >= 1; --ranks) sizes.insert(sizes.begin(), ranks);
  for (const int ranks : sizes) {
    if (ranks > largest) continue;
    for (const OptionInfo& option : algorithm.options) {
      for (const OptionValue& value : option.legal) {
        Scenario s = base(algorithm, ranks);
        s.schedule.set(option.key, value);
        run(s);
      }
    }
    for (std::size_t i = 1; i < algorithm.placements.size(); ++i) {
      Scenario s = base(algorithm, ranks);
      s.placement = algorithm.placements[i];
      run(s);
    }
    Scenario asking = base(algorithm, ranks);
    asking.problem.max_logit = asking.problem.attention == Attention::softmax;
    run(asking);
    if (asking.problem.attention == Attention::linear) continue;  // has no windows
    for (const Window window : {Window{-1, -1}, Window{4096, 0}, Window{4096, 4096}, Window{0, 0}}) {
      Scenario s = base(algorithm, ranks);
      s.problem.causal = false;
      s.problem.window = window;
      run(s);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%d plans (%d of 512 tokens), %zu operations built and checked in %.2f s, %d wrong\n",
              total.plans, total.shortened, total.operations, seconds.count(), total.wrong);
  std::fflush(stdout);
  return total.wrong == 0;
}

}  // namespace

int main(int argc, char** argv) {
  const auto [only, numbers] = testing::algorithm_and_numbers(argc, argv, {64, 1});
  bool right = true;
  for (const Algorithm& algorithm : algorithms()) {
    if (only && &algorithm != only) continue;
    if (!only && algorithms().size() > 1) std::printf("%s: ", std::string(algorithm.name).c_str());
    right = sweep(algorithm, static_cast<int>(numbers[0]), numbers[1]) && right;
  }
  return right ? 0 : 1;
}
