// The keys of [problem] that only dynamic mask attention has.
#pragma once

#include <string>
#include <vector>

#include "cli/files/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// Reads bias, keep, top_k, block and softcap into a problem whose other keys have been read. Throws
// InputError for a key that the problem cannot have, and says what would be legal.
void read_dynamic_mask(const Table& table, Problem& problem);

// Says of times, where keys are selected by their biases, that this was done before the plan began.
void note_selection(const Problem& problem, std::vector<std::string>& notes);

}  // namespace cplab
