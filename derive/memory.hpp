// Memory of one rank, exactly: when each buffer lives, the peak, and where it lies in the arena.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Program order rules: a buffer is born just before operation `birth` and dies just after operation `death`
// (indices into RankPlan::operations). Inputs: born with the first operation of the phase that first reads
// them, never die (death = operations.size()). Outputs: from their first use, never die. Others: from first
// to last use. A buffer that no operation touches has birth = death = operations.size() and does not count.
struct Lifetime {
  std::uint32_t birth = 0;
  std::uint32_t death = 0;
};

// +bytes at birth, -bytes at death, keyed by (operation, buffer), in program order; at one operation the
// births come before it, the deaths after it.
struct MemoryEvent {
  std::uint32_t operation = 0;
  std::uint32_t buffer = 0;
  std::int64_t bytes = 0;
};

struct MemoryPlan {
  std::vector<Lifetime> lifetimes;  // by buffer
  std::vector<MemoryEvent> events;
  std::int64_t live_peak_bytes = 0;         // of the buffers alive at one operation: `peak_bytes`
  std::uint32_t peak_operation = 0;         // the first operation that reaches it
  std::vector<std::uint32_t> peak_buffers;  // alive there, in buffer order
  std::vector<std::int64_t> offsets;        // by buffer; multiples of arena_alignment
  std::int64_t arena_bytes = 0;             // fragmentation included
};

inline constexpr std::int64_t arena_alignment = 256;

MemoryPlan plan_memory(const RankPlan&);

}  // namespace cplab
