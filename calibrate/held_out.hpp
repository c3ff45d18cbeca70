// Scenarios that no table was made for: drawn at random over all families, to be predicted and then run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace cplab::measure {

struct Drawn {
  std::string kind;  // kind_of the scenario
  std::string text;  // sections [problem], [parallel] and [schedule] of a scenario file
};

// The families over which errors are told apart, the first that fits: one_gpu; lasp (a chain of states) and
// scan (states scanned or gathered); packed, window and batch, whatever the algorithm; else the algorithm.
std::string kind_of(const Scenario& scenario);

// Number `index` of an endless list: kinds take turns. Depends on seed, index and GPUs alone. Lengths from 3K
// to 48K tokens in all, log-uniform.
Drawn draw(std::uint64_t seed, int index, int gpus);

}  // namespace cplab::measure
