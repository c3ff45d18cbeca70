// Small resolved scenarios for the tests of execution and verification.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/scenarios/any_scenario.hpp"

namespace cplab {

using Options = std::vector<std::pair<std::string, OptionValue>>;

struct ScenarioSpec {
  std::int64_t ranks = 4;
  DType dtype = DType::fp64;
  std::string placement;  // empty: the algorithm's default
  bool causal = true;
  Window window;
  std::int64_t batch = 1;
  std::int64_t sequence = 32;
  std::vector<std::int64_t> lengths;         // packed if not empty
  std::vector<std::int64_t> padded_lengths;  // default: lengths
  std::vector<std::int64_t> kv_lengths;      // of keys of their own, packed or of each sequence of the batch
  std::vector<std::int64_t> kv_padded_lengths;
  Diagonal align = Diagonal::top_left;
  bool keys_everywhere = false;
  std::int64_t heads = 4, kv_heads = 2, head_size = 8, value_size = 4;
  std::int64_t kv_latent = 0, rope_size = 0;
  double scale = 0;  // default: head_size^-0.5
  bool backward = true;
  bool max_logit = false;
  bool sink = false;
  double softcap = 0;
  BiasForm bias = BiasForm::none;  // alibi: of slopes 1/2, 1/4, ...; buckets: 8, up to a distance of 12
  std::int64_t replicas = 1;
  std::string algorithm;  // empty: any that takes the placement
  Options options;
};

inline Scenario scenario(const ScenarioSpec& spec) {
  Scenario s;
  Problem& p = s.problem;
  p.packed = !spec.lengths.empty();
  if (p.packed) {
    p.format = Format::thd;
    p.lengths = spec.lengths;
    p.padded_lengths = spec.padded_lengths.empty() ? spec.lengths : spec.padded_lengths;
  } else {
    p.batch = spec.batch;
    p.sequence = spec.sequence;
    p.lengths.assign(static_cast<std::size_t>(spec.batch), spec.sequence);
    p.padded_lengths = p.lengths;
  }
  p.kv_lengths = spec.kv_lengths;
  p.kv_padded_lengths = spec.kv_padded_lengths.empty() ? spec.kv_lengths : spec.kv_padded_lengths;
  if (!p.packed && p.is_cross()) p.kv_sequence = spec.kv_lengths.front();
  p.align = spec.align;
  s.parallel.keys_everywhere = spec.keys_everywhere;
  p.heads = spec.heads;
  p.kv_heads = spec.kv_heads;
  p.head_size = spec.head_size;
  p.value_size = spec.value_size;
  p.kv_latent = spec.kv_latent, p.rope_size = spec.rope_size;
  p.dtype = spec.dtype;
  p.causal = spec.causal;
  p.window = spec.window;
  p.scale = spec.scale > 0 ? spec.scale : 1 / std::sqrt(static_cast<double>(spec.head_size));
  p.direction = spec.backward ? Direction::forward_backward : Direction::forward;
  p.max_logit = spec.max_logit;
  p.sink = spec.sink, p.softcap = spec.softcap, p.bias = spec.bias;
  if (p.bias == BiasForm::alibi)
    for (std::int64_t h = 0; h < p.heads; ++h) p.slopes.push_back(std::ldexp(0.5, static_cast<int>(-h)));
  if (p.bias == BiasForm::buckets) p.buckets = 8, p.max_distance = 12;
  s.parallel.ranks = spec.ranks;
  s.parallel.replicas = spec.replicas;
  s.algorithm = spec.algorithm.empty() ? testing::any_algorithm(spec.placement) : spec.algorithm;
  s.placement = spec.placement;
  for (const auto& [key, value] : spec.options) s.schedule.set(key, value);
  return testing::resolve_with_heads(s);
}

inline OptionValue word(const char* text) {
  return std::string(text);
}
inline OptionValue count(std::int64_t n) {
  return n;
}

}  // namespace cplab
