// Ranges of a study: {from = 8, to = 64, times = 2}, {from = 1, to = 4, step = 1}.
#pragma once

#include <vector>

#include "cli/files/toml_table.hpp"
#include "cli/sweep/study.hpp"

namespace cplab {

// The values of a table with from, to, and times or step: from `from` on, never beyond `to`. Whole numbers
// and sizes ("8K") give whole numbers; other numbers with a unit, the same on both sides ("100Gb/s"), keep
// it. Throws InputError.
std::vector<StudyValue> range_values(const Table&);

}  // namespace cplab
