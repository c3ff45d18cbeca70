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

namespace {

bool takes(const Algorithm& algorithm, const std::string& placement) {
  return placement.empty() || std::ranges::count(algorithm.placements, placement) > 0;
}

bool takes_anything(const Algorithm& algorithm) {
  Scenario s = unresolved(3, std::string(algorithm.name), attention_of(std::string(algorithm.name)));
  s.problem.heads = s.problem.kv_heads = 1;
  try {
    resolve(s);
  } catch (const ScenarioError&) {
    return false;
  }
  return algorithm.placements.size() == placements().size();
}

}  // namespace

std::string any_algorithm(const std::string& placement) {
  for (const Algorithm& a : algorithms())
    if (takes_anything(a)) return std::string(a.name);
  for (const Algorithm& a : algorithms())
    if (takes(a, placement)) return std::string(a.name);
  throw std::logic_error("no algorithm takes the placement " + placement);
}

Scenario resolve_with_heads(const Scenario& scenario) {
  try {
    return resolve(scenario);
  } catch (const ScenarioError& refusal) {
    Scenario more = scenario;
    more.problem.heads *= scenario.parallel.ranks;
    more.problem.kv_heads *= scenario.parallel.ranks;
    try {
      return resolve(more);
    } catch (const ScenarioError&) {
      throw refusal;  // heads are not the reason
    }
  }
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
  return resolve_with_heads(unresolved(ranks, algorithm, attention_of(algorithm)));
}

}  // namespace cplab::testing
