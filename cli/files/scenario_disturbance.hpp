// [[simulate.slow]], jitter and seed of [simulate]. Internal to the reader of scenarios.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "report/results.hpp"
#include "sim/disturbance.hpp"

namespace cplab {

// Ranks that are slower than the machine says, and kernels that differ from call to call.
struct Disturbance {
  std::vector<SlowRank> slow;  // by rank, ascending; none twice
  double jitter = 0;
  std::uint64_t seed = 1;
};

// Marks the keys of the entries of [[simulate.slow]] as known.
void know_slow_ranks(const Table& simulate);
// `world`: the ranks of the scenario. Throws InputError with what is legal. Adds a note for a seed that no
// jitter uses.
Disturbance read_disturbance(const Table& simulate, std::int64_t world, std::vector<std::string>& notes);
// As a result says them: nothing where nothing is disturbed.
void add_disturbance(const Disturbance&, ScenarioSection& simulate);

}  // namespace cplab
