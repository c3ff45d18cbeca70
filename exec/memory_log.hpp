// Which memory an execution used, written down where it used it, and the births and deaths of buffers that
// follow. equals_plan alone looks at the memory planner.
#pragma once

#include <vector>

#include "derive/memory.hpp"
#include "exec/bind.hpp"

namespace cplab {

// Arena bytes that became a buffer's: inputs before the start, all others at their first use.
struct MemoryBlock {
  std::uint32_t buffer = 0;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// One rank's log, in execution order.
struct MemoryLog {
  std::vector<MemoryBlock> blocks;
  std::vector<MemoryUse> uses;
};

// +bytes at the birth and -bytes at the death of every buffer in the log, by program order and by the rules
// of derive/memory.hpp: the order of execution does not matter. Sorted by operation, births before
// deaths, then by buffer.
std::vector<MemoryEvent> memory_events(const RankPlan& plan, const MemoryLog& log);

// Whether those are the planner's events of this rank, key by key.
bool equals_plan(const RankPlan& plan, const MemoryLog& log);

}  // namespace cplab
