// Scenarios that no table was made for: drawn at random over all families, to be predicted and then run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cplab::measure {

struct Drawn {
  std::string kind;  // accuracy_kind of the scenario (sim/accuracy.hpp)
  std::string text;  // sections [problem], [parallel] and [schedule] of a scenario file
};

// Number `index` of an endless list: kinds take turns. Depends on seed, index and GPUs alone. Lengths from 3K
// to 48K tokens in all, log-uniform.
Drawn draw(std::uint64_t seed, int index, int gpus);

}  // namespace cplab::measure
