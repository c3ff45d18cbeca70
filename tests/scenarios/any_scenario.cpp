// See any_scenario.hpp.
#include "tests/scenarios/any_scenario.hpp"

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

std::string any_algorithm() {
  return std::string(algorithms().front().name);
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
