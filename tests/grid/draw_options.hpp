// Options of an algorithm drawn from a number, for the programs that try thousands of plans.
#pragma once

#include <cstdint>

#include "algorithms/core/algorithm.hpp"
#include "plan/problem.hpp"

namespace cplab::testing {

// Sets options of the scenario by the digits of `number`, each in the base of an option's legal values (of a
// count without an end the first three). The
// first digits are those of the options that change the operations of a plan most, where the algorithm has
// them: merge, kv_slots, tile_inputs; the others follow as they are registered. From there on the digit 0
// leaves an option out, and a value that does not go with those before it is left out as well. Returns the
// resolved scenario.
Scenario draw_options(Scenario, const Algorithm&, std::uint64_t number);
// A number with as many digits for a seed that has few, so that every option is drawn from small seeds too.
constexpr std::uint64_t scattered(std::uint64_t seed) {  // splitmix64
  std::uint64_t z = seed + 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// The placement of that number: the default one has two of the numbers.
std::string_view draw_placement(const Algorithm&, std::uint64_t number);
inline std::uint64_t placement_numbers(const Algorithm& algorithm) {
  return algorithm.placements.size() + 1;
}

}  // namespace cplab::testing
