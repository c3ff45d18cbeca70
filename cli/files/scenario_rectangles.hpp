// The keys of a mask beside mask and window: chunk, prefix, groups, mask_rectangles.
#pragma once

#include "cli/files/toml_table.hpp"
#include "plan/problem.hpp"

namespace cplab {

// Throws InputError for what is not of their form; what does not fit the lengths is require_sizes' to say.
void read_rectangles(const Table& problem_section, Problem&);

}  // namespace cplab
