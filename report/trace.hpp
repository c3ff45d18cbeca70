// Chrome traces in Kineto's dialect, one file of all ranks or one a rank, for Perfetto, chrome://tracing and
// HTA. Times are microseconds with three decimals. See the table in trace.cpp for which rule serves which
// reader.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "derive/memory.hpp"
#include "plan/plan.hpp"
#include "report/figures.hpp"
#include "report/timeline.hpp"

namespace cplab {

// Writes one file of these ranks, in their order, with an arrow for every message between them; of all ranks
// where none are named. Throws as write_traces does.
void write_trace(const std::string& file, const Plan& plan, const Timeline& timeline,
                 std::span<const MemoryPlan> memory, std::span<const std::size_t> ranks = {});

// The ranks that one file holds: all of them, while they have at most most_operations_of_a_trace operations
// together, else the notable ones.
inline constexpr std::int64_t most_operations_of_a_trace = 200'000;
std::vector<NotableRank> ranks_of_trace(const Plan& plan, const Figures& figures);

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
