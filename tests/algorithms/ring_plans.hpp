// What tests of ring plans ask: a scenario of a shape, what a rank sends, a buffer by its name.
#pragma once

#include <cstdint>
#include <string_view>

#include "algorithms/core/build.hpp"
#include "tests/algorithms/scenarios.hpp"

namespace cplab::testing {

inline Scenario ring_scenario(Shape shape) {
  shape.algorithm = "ring";
  return scenario(shape);
}

inline std::int64_t sent(const RankPlan& rank, Phase phase) {
  std::int64_t bytes = 0;
  for (const Operation& op : rank.operations)
    if (op.phase == phase && is_communication(op.kind)) bytes += op.bytes;
  return bytes;
}

// Null: the rank has none of that name.
inline const Buffer* find(const RankPlan& rank, std::string_view name) {
  for (const Buffer& buffer : rank.buffers)
    if (buffer.name == name) return &buffer;
  return nullptr;
}

}  // namespace cplab::testing
