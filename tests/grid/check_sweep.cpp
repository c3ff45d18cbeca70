// Checks ring plans in bulk and prints how many, how large and how long: the default form at every P
// in 1..64, and every option value, placement and mask varied alone at P 1..16, 24, 32, 48, 64, forward and
// backward.
//   build/release/check_sweep [largest P]
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "algorithms/algorithm.hpp"
#include "algorithms/build.hpp"
#include "algorithms/list.hpp"
#include "algorithms/resolve.hpp"
#include "check/check.hpp"

using namespace cplab;

namespace {

struct Total {
  int plans = 0, wrong = 0;
  std::size_t operations = 0;
};

Scenario base(int ranks) {
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
  s.algorithm = "ring";
  return s;
}

void run(const Scenario& wanted, Total& total) {
  Scenario s;
  try {
    s = resolve(wanted);
  } catch (const ScenarioError&) {
    return;  // an option value that needs another one beside it
  }
  const Plan plan = build_plan(s);
  const CheckResult result = check(plan);
  ++total.plans;
  for (const RankPlan& rank : plan.ranks) total.operations += rank.operations.size();
  if (result.ok() && result.messages == 3 * s.parallel.ranks * (s.parallel.ranks - 1)) return;
  ++total.wrong;
  std::printf("wrong: P=%lld placement=%s", static_cast<long long>(s.parallel.ranks), s.placement.c_str());
  for (const auto& [key, value] : s.schedule.options)
    std::printf(" %s=%s", key.c_str(), to_string(value).c_str());
  std::printf(" window=[%lld,%lld]: %lld messages\n", static_cast<long long>(s.problem.visible().left),
              static_cast<long long>(s.problem.visible().right), static_cast<long long>(result.messages));
  for (const Finding& f : result.findings) {
    std::printf("  %s rank %d %s %s: %s\n", std::string(name(f.kind)).c_str(), f.rank, f.operation.c_str(),
                f.buffer.c_str(), f.message.c_str());
    break;
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int largest = argc > 1 ? std::atoi(argv[1]) : 64;
  const auto start = std::chrono::steady_clock::now();
  Total total;
  for (int ranks = 1; ranks <= largest; ++ranks) run(base(ranks), total);
  std::vector<int> sizes{24, 32, 48, 64};
  for (int ranks = 16; ranks >= 1; --ranks) sizes.insert(sizes.begin(), ranks);
  for (const int ranks : sizes) {
    if (ranks > largest) continue;
    for (const OptionInfo& option : find_algorithm("ring")->options) {
      for (const OptionValue& value : option.legal) {
        Scenario s = base(ranks);
        s.schedule.set(option.key, value);
        run(s, total);
      }
    }
    for (const char* merge : {"deferred", "fused"}) {  // they bring other defaults with them
      Scenario s = base(ranks);
      s.schedule.set("merge", std::string(merge));
      run(s, total);
    }
    for (const char* placement : {"contiguous", "striped"}) {
      Scenario s = base(ranks);
      s.placement = placement;
      run(s, total);
    }
    for (const Window window : {Window{-1, -1}, Window{4096, 0}, Window{4096, 4096}, Window{0, 0}}) {
      Scenario s = base(ranks);
      s.problem.causal = false;
      s.problem.window = window;
      run(s, total);
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%d plans, %zu operations built and checked in %.2f s, %d wrong\n", total.plans,
              total.operations, seconds.count(), total.wrong);
  return total.wrong ? 1 : 0;
}
