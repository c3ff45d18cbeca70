// Options of an algorithm drawn from a number, for the programs that try thousands of plans.
#pragma once

#include <cstdint>

#include "algorithms/algorithm.hpp"
#include "plan/problem.hpp"

namespace cplab::testing {

// Sets options of the scenario by the digits of `number`, each in the base of an option's legal values. The
// first digits are those of the options that change the operations of a plan most, where the algorithm has
// them: merge, kv_slots, tile_inputs; the others follow as they are registered. From there on the digit 0
// leaves an option out, and a value that does not go with those before it is left out as well. Returns the
// resolved scenario.
Scenario draw_options(Scenario, const Algorithm&, std::uint64_t number);

// The placement of that number: the default one has two of the numbers.
std::string_view draw_placement(const Algorithm&, std::uint64_t number);
inline std::uint64_t placement_numbers(const Algorithm& algorithm) {
  return algorithm.placements.size() + 1;
}

}  // namespace cplab::testing
