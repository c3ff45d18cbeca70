// See any_scenario.hpp.
#include "tests/scenarios/any_scenario.hpp"

#include <algorithm>
#include <stdexcept>

#include "algorithms/core/list.hpp"
#include "algorithms/core/resolve.hpp"

namespace cplab::testing {
namespace {

// A decay's slopes, one for each head.
void fit_slopes(Problem& p) {
  const bool decays = p.attention == Attention::linear && p.transition == Transition::decay;
  if (!decays && p.bias != BiasForm::alibi) return;
  std::vector<double> pattern = p.slopes;
  if (pattern.empty()) pattern = {0.35, 0.02, 0, 2.5};
  p.slopes.clear();
  for (std::size_t h = 0; h < static_cast<std::size_t>(p.heads); ++h)
    p.slopes.push_back(pattern[h % pattern.size()]);
}

Scenario unresolved(int ranks, const std::string& algorithm, Attention attention,
                    Transition transition = Transition::decay) {
  Scenario scenario;
  Problem& problem = scenario.problem;
  problem.batch = 2;
  problem.sequence = 96;
  problem.lengths = problem.padded_lengths = {96, 96};
  problem.heads = 4;
  problem.kv_heads = 2;
  problem.head_size = problem.value_size = 8;
  problem.scale = 0.35;
  problem.causal = true;
  problem.transition = transition;
  take_attention(problem, attention);
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
  Scenario s = unresolved(3, std::string(algorithm.name), Attention::softmax);
  suit(s.problem, s.algorithm);
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

void take_attention(Problem& p, Attention attention) {
  p.attention = attention;
  if (attention != Attention::linear) return;
  p.kv_heads = p.heads;
  p.causal = true;
  p.window = {};
  p.scale = 1;
  fit_slopes(p);
}

void take_latents(Problem& p) {
  p.attention = Attention::softmax;
  p.kv_heads = p.heads;
  p.kv_latent = 5;
  p.rope_size = 2;
}

Scenario resolve_with_heads(const Scenario& scenario) {
  Scenario first = scenario;
  fit_slopes(first.problem);
  try {
    return resolve(first);
  } catch (const ScenarioError& refusal) {
    Scenario more = first;
    more.problem.heads *= scenario.parallel.ranks;
    more.problem.kv_heads *= scenario.parallel.ranks;
    fit_slopes(more.problem);
    try {
      return resolve(more);
    } catch (const ScenarioError&) {
      throw refusal;  // heads are not the reason
    }
  }
}

namespace {

struct Kind {
  Attention attention = Attention::softmax;
  Transition transition = Transition::decay;
};

Kind kind_of(const std::string& algorithm) {
  using enum Transition;
  constexpr Kind kinds[] = {{Attention::softmax},
                            {Attention::linear},
                            {Attention::linear, column},
                            {Attention::linear, matrix},
                            {Attention::dynamic_mask}};
  for (const Kind& kind : kinds) {
    try {
      resolve(unresolved(1, algorithm, kind.attention, kind.transition));
      return kind;
    } catch (const ScenarioError&) {
      continue;  // not this kind
    }
  }
  return {};
}

}  // namespace

Attention attention_of(const std::string& algorithm) {
  return kind_of(algorithm).attention;
}

std::string placement_for_linear_too(const Algorithm& algorithm) {
  const std::string name(algorithm.name);
  if (attention_of(name) == Attention::linear) return {};
  for (const std::string_view placement : algorithm.placements) {
    Scenario s = unresolved(1, name, Attention::linear);
    s.placement = placement;
    try {
      return resolve(s).placement;
    } catch (const ScenarioError&) {
      continue;  // not linear attention, or not in this placement
    }
  }
  return {};
}

std::vector<Algorithm> algorithms_for(Attention attention) {
  std::vector<Algorithm> found;
  for (const Algorithm& algorithm : algorithms())
    if (attention_of(std::string(algorithm.name)) == attention) found.push_back(algorithm);
  return found;
}

void suit(Problem& problem, const std::string& algorithm) {
  const Kind kind = kind_of(algorithm);
  problem.transition = kind.transition;
  take_attention(problem, kind.attention);
}

Scenario any_scenario(int ranks, const std::string& algorithm) {
  Scenario scenario = unresolved(ranks, algorithm, Attention::softmax);
  suit(scenario.problem, algorithm);
  return resolve_with_heads(scenario);
}

}  // namespace cplab::testing
