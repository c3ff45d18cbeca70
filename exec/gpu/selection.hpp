// Which keys dynamic mask attention keeps, selected on a rank's GPU before a plan is executed.
#pragma once

#include <span>

#include "exec/gpu/executor.hpp"
#include "exec/gpu/rank.hpp"

namespace cplab {

// As GpuExecutor::select_keys, for one rank. Waits. Throws GpuError.
void select_keys(const GpuRank& rank, const Problem& problem, std::span<const KeySelection::Row> rows,
                 std::span<const double> biases);

}  // namespace cplab
