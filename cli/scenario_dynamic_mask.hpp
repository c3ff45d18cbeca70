// The keys of [problem] that only dynamic mask attention has.
#pragma once

#include "cli/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// Reads bias, keep, top_k, block and softcap into a problem whose other keys have been read. Throws
// InputError for a key that the problem cannot have, and says what would be legal.
void read_dynamic_mask(const Table& table, Problem& problem);

}  // namespace cplab
