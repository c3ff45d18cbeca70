// What may be computed, as dimensions: transitions, biases and masks of pairs, keys; see choices.hpp.
#include <algorithm>
#include <string>
#include <vector>

#include "algorithms/core/resolve.hpp"
#include "tests/scenarios/any_scenario.hpp"
#include "tests/scenarios/choices.hpp"

namespace cplab::testing {

Dimension transition_dimension(const Algorithm& algorithm) {
  Dimension d{"transition", {}};
  const auto add = [&](const char* name, Transition transition, const std::vector<double>& slopes,
                       Gate gate = Gate::column) {
    const auto choose = [=](Scenario& s) {
      s.problem.transition = transition;
      s.problem.gate = gate;
      s.problem.slopes = slopes;  // for as many heads as there are: resolve_with_heads
    };
    Scenario asks = any_scenario(2, std::string(algorithm.name));
    asks.schedule = {};
    choose(asks);
    try {
      (void)resolve_with_heads(asks);
    } catch (const ScenarioError&) {
      return;  // another algorithm's
    }
    d.values.push_back({name, choose});
  };
  if (attention_of(std::string(algorithm.name)) != Attention::linear) {
    d.values.push_back({"-", [](Scenario&) {}});
    return d;
  }
  add("decay", Transition::decay, {});
  add("decay 0 8", Transition::decay, {0, 8});
  add("head", Transition::head, {});
  add("column", Transition::column, {});
  add("matrix", Transition::matrix, {});
  add("matrix of heads", Transition::matrix, {}, Gate::head);
  return d;
}

Dimension convolution_dimension() {
  Dimension d{"convolution", {}};
  for (const std::int64_t W : {0, 2, 4})
    d.values.push_back({std::to_string(W), [W](Scenario& s) {
                          if (s.problem.attention == Attention::linear) s.problem.convolution = W;
                        }});
  return d;
}

Dimension pair_mask_dimension(const Algorithm& algorithm) {
  Dimension d{"pair mask", {{"none", [](Scenario&) {}}}};
  if (attention_of(std::string(algorithm.name)) == Attention::linear) return d;
  // Some algorithms take some of them alone.
  const auto add_softmax = [&](const char* name, BiasForm bias, double softcap, bool sink) {
    const auto choose = [=](Scenario& s) {
      Problem& p = s.problem;
      p.attention = Attention::softmax;
      p.bias = bias, p.softcap = softcap, p.sink = sink;
      if (bias == BiasForm::alibi) p.slopes = {0.5, 0.1};
      if (bias == BiasForm::buckets) p.buckets = 8, p.max_distance = 12;
    };
    Scenario asks = any_scenario(2, std::string(algorithm.name));
    asks.schedule = {};
    choose(asks);
    try {
      (void)resolve_with_heads(asks);
    } catch (const ScenarioError&) {
      return;
    }
    d.values.push_back({name, choose});
  };
  add_softmax("sink", BiasForm::none, 0, true);
  add_softmax("softcap", BiasForm::none, 2, false);
  add_softmax("alibi, softcap, sink", BiasForm::alibi, 30, true);
  add_softmax("buckets, sink", BiasForm::buckets, 0, true);
  add_softmax("softmax keys", BiasForm::keys, 0, true);
  add_softmax("softmax full", BiasForm::full, 0, false);
  for (const OptionInfo& option : algorithm.options)
    if (option.key == "travels")
      d.values.push_back({"latents", [](Scenario& s) { take_latents(s.problem); }});
  if (!placement_for_linear_too(algorithm).empty())
    for (const Transition transition :
         {Transition::decay, Transition::head, Transition::column, Transition::matrix})
      d.values.push_back({"linear " + std::string(name(transition)), [transition](Scenario& s) {
                            s.problem.transition = transition;
                            take_attention(s.problem, Attention::linear);
                          }});
  Scenario asks = any_scenario(2, std::string(algorithm.name));
  asks.schedule = {};
  asks.problem.attention = Attention::dynamic_mask;
  try {
    (void)resolve(asks);
  } catch (const ScenarioError&) {
    return d;
  }
  const auto add = [&](const char* name, BiasForm bias, Keep keep, std::int64_t block, double softcap) {
    d.values.push_back({name, [=](Scenario& s) {
                          Problem& p = s.problem;
                          p.attention = Attention::dynamic_mask;
                          p.bias = bias, p.keep = keep, p.block = block, p.softcap = softcap;
                          p.top_k = keep == Keep::top_k ? 6 : 0;
                        }});
  };
  add("keys", BiasForm::keys, Keep::none, 0, 3);
  add("keys top_k", BiasForm::keys, Keep::top_k, 4, 0);
  add("full", BiasForm::full, Keep::none, 0, 0);
  add("full top_k", BiasForm::full, Keep::top_k, 0, 0);
  add("full relu", BiasForm::full, Keep::relu, 2, 2);
  return d;
}

namespace {

// Keys of their own, `more` of them than there are queries (half as many if that is 0), in each sequence.
void take_keys(Scenario& s, std::int64_t more, Diagonal align, bool everywhere) {
  Problem& p = s.problem;
  for (std::size_t b = 0; b < p.lengths.size(); ++b) {
    const std::int64_t keys = more > 0 ? p.lengths[b] + more : p.lengths[b] / 2;
    p.kv_lengths.push_back(p.packed ? keys : std::max<std::int64_t>(1, keys));
    p.kv_padded_lengths.push_back(p.kv_lengths.back() + (p.packed ? 2 : 0));
  }
  p.kv_sequence = p.packed ? 0 : p.kv_lengths.front();
  p.align = align;
  s.parallel.keys_everywhere = everywhere;
}

// In the first sequence: a group of its first tokens, and the last half of its queries with its first keys.
void take_rectangles(Problem& p) {
  const std::int64_t tokens = p.lengths.front(), half = tokens / 2, few = std::min<std::int64_t>(5, half);
  if (few == 0) return;
  using enum MaskRectangle::Form;
  p.groups = {{0, few}};
  p.rectangles = {{half, tokens, 0, half, causal}, {0, few, half, tokens, inverse_causal}};
}

}  // namespace

Dimension keys_dimension(const Algorithm& algorithm) {
  Dimension d{"keys", {{"own", [](Scenario&) {}}}};
  const auto add = [&](const char* name, std::function<void(Scenario&)> choose) {
    d.values.push_back({name, std::move(choose)});
  };
  if (attention_of(std::string(algorithm.name)) == Attention::linear) return d;
  add("chunks", [](Scenario& s) { s.problem.chunk = 7; });
  add("prefix", [](Scenario& s) { s.problem.prefix = 3; });
  add("rectangles", [](Scenario& s) { take_rectangles(s.problem); });
  add("rectangles alone", [](Scenario& s) {
    take_rectangles(s.problem);
    if (s.problem.rectangles.empty()) return;
    s.problem.causal = false, s.problem.only_rectangles = true, s.problem.window = {};
  });
  add("more", [](Scenario& s) { take_keys(s, 5, Diagonal::bottom_right, false); });
  add("fewer", [](Scenario& s) { take_keys(s, 0, Diagonal::top_left, false); });
  add("fewer, last on last", [](Scenario& s) { take_keys(s, 0, Diagonal::bottom_right, false); });
  if (algorithm.keys_everywhere)
    add("everywhere", [](Scenario& s) { take_keys(s, 0, Diagonal::bottom_right, true); });
  return d;
}

}  // namespace cplab::testing
