// Rows cut into parts of about equal size, so that work on one part goes beside the transfer of the next. A
// "part" of algorithms/ is always such a part of rows (schedule.parts); the plan's Part is a message's end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "algorithms/core/placement.hpp"
#include "algorithms/core/rows.hpp"

namespace cplab {

// sequences: no sequence is in two parts. rows: anywhere, at borders of runs if one is near, else a multiple
// of defaults::cut_rows() from the run's begin, so that tiles of kernels stay whole.
enum class CutAt : std::uint8_t { sequences, rows };

// The rows of the runs, which ascend, in `count` parts, some of which may be empty.
std::vector<Rows> cut_in_parts(std::span<const TokenRun> runs, std::int64_t count, CutAt);

}  // namespace cplab
