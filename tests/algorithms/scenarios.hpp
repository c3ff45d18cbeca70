// Scenarios for tests in one line: dense or packed problems on one group.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "algorithms/core/homes.hpp"
#include "algorithms/core/resolve.hpp"
#include "tests/scenarios/any_scenario.hpp"

namespace cplab::testing {

using Options = std::vector<std::pair<std::string, OptionValue>>;
inline OptionValue word(const char* text) {
  return std::string(text);
}
inline OptionValue count(std::int64_t value) {
  return value;
}

struct Shape {
  int ranks = 4;
  std::string placement{};  // empty: the algorithm's default
  std::vector<std::int64_t> lengths{64};
  std::vector<std::int64_t> padded_lengths{};  // default: lengths
  bool causal = true;
  Window window{};
  std::int64_t heads = 2, kv_heads = 1, head_size = 16, value_size = 8;
  DType dtype = DType::bf16;
  bool backward = true;
  Options options{};
  std::string algorithm{};  // empty: any
  Attention attention = Attention::softmax;
  Transition transition = Transition::decay;
  std::vector<int> homes{};  // of placement hybrid; empty: balanced
  bool sink = false;
};

// Without algorithm and options: what placements and tiles need.
inline Scenario without_algorithm(const Shape& shape) {
  Scenario s;
  Problem& p = s.problem;
  p.format = Format::thd;
  p.packed = true;
  p.lengths = shape.lengths;
  p.padded_lengths = shape.padded_lengths.empty() ? shape.lengths : shape.padded_lengths;
  p.heads = shape.heads;
  p.kv_heads = shape.kv_heads;
  p.head_size = shape.head_size;
  p.value_size = shape.value_size;
  p.dtype = shape.dtype;
  p.causal = shape.causal;
  p.window = shape.window;
  p.scale = 0.25;
  p.transition = shape.transition;
  take_attention(p, shape.attention);
  p.sink = shape.sink;
  p.direction = shape.backward ? Direction::forward_backward : Direction::forward;
  s.parallel.ranks = shape.ranks;
  s.placement = shape.placement;
  s.parallel.homes = shape.homes;
  resolve_homes(s);
  return s;
}

inline Scenario scenario(const Shape& shape) {
  Scenario s = without_algorithm(shape);
  s.algorithm = shape.algorithm.empty() ? any_algorithm() : shape.algorithm;
  for (const auto& [key, value] : shape.options) s.schedule.set(key, value);
  return resolve(s);
}

}  // namespace cplab::testing
