// simulate --algorithms: one problem under every algorithm, placement and team size that takes it, in one
// table.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/console.hpp"
#include "cli/files/scenario_file.hpp"
#include "cli/progress.hpp"

namespace cplab {

// "all", or names of algorithms between commas. Every placement that an algorithm has, or the one that --set
// names; of algorithms with teams every inner_ranks from 2 to below ranks that divides ranks, in every
// inner_order; of strides 1 and 2 key heads; other options as the scenario has them, else the algorithm's
// own. The fastest first; rows whose band reaches down into the band of the first are marked: which of them
// is the fastest is not known. What refuses the scenario is named with the reason. Exit code.
int simulate_algorithms(const Arguments&, Console&);

// The first of these rows that fits, else the first, of all algorithms and placements.
struct FastestAlgorithm {
  std::string algorithm, placement;
  std::vector<std::pair<std::string, std::string>> options;  // of [schedule], that the row chose
  std::size_t rows = 0;                                      // that were simulated
  bool fits = false;
};
// Throws InputError where none takes the scenario.
FastestAlgorithm fastest_algorithm(const ScenarioFile&, Progress&);

}  // namespace cplab
