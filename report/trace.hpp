// Chrome traces in Kineto's dialect, one file of all ranks or one a rank, for Perfetto, chrome://tracing and
// HTA. Times are microseconds with three decimals. See the table in trace.cpp for which rule serves which
// reader.
#pragma once

#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Writes one file of all ranks, with an arrow for every message. Throws as write_traces does.
void write_trace(const std::string& file, const Plan& plan, const Timeline& timeline,
                 std::span<const MemoryPlan> memory);

// Writes directory/rank{r}_trace.json for every rank, and creates the directory. memory[r] is
// plan_memory(plan.ranks[r]). Arrows between ranks would need both ends in one file and are left out. One
// rank is in memory at a time; all files are complete before the first takes its name. Throws OutputError, or
// std::invalid_argument when timeline or memory do not belong to the plan by their sizes.
void write_traces(const std::string& directory, const Plan& plan, const Timeline& timeline,
                  std::span<const MemoryPlan> memory);

// Births and deaths of buffers as CSV (RFC 4180): time_s, rank, operation, buffer, category, bytes (negative
// at a death), in order of time for each rank. A birth is at the start of its operation, a death at the end.
void write_memory_csv(std::ostream& out, const Plan& plan, const Timeline& timeline,
                      std::span<const MemoryPlan> memory);

}  // namespace cplab
