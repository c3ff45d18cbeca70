// See any_scenario.hpp.
#include "tests/scenarios/any_scenario.hpp"

#include <algorithm>
#include <stdexcept>

#include "algorithms/list.hpp"
#include "algorithms/resolve.hpp"

namespace cplab::testing {
namespace {

Scenario unresolved(int ranks, const std::string& algorithm, Attention attention) {
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.attention = attention;
  problem.batch = 2;
  problem.sequence = 96;
  problem.lengths = problem.padded_lengths = {96, 96};
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.head_size = problem.value_size = 8;
  problem.scale = 0.35;
  problem.causal = true;
  scenario.parallel.ranks = ranks;
  scenario.algorithm = algorithm;
  return scenario;
}

}  // namespace

std::string any_algorithm(const std::string& placement) {
  for (const Algorithm& a : algorithms())
    if (placement.empty() || std::ranges::count(a.placements, placement) > 0) return std::string(a.name);
  throw std::logic_error("no algorithm takes the placement " + placement);
}

Attention attention_of(const std::string& algorithm) {
  for (const Attention attention : {Attention::softmax, Attention::linear, Attention::dynamic_mask}) {
    try {
      resolve(unresolved(1, algorithm, attention));
      return attention;
    } catch (const ScenarioError&) {
      continue;  // not this kind
    }
  }
  return Attention::softmax;
}

Scenario any_scenario(int ranks, const std::string& algorithm) {
  return resolve(unresolved(ranks, algorithm, attention_of(algorithm)));
}

}  // namespace cplab::testing
