// Memory of one rank: when each buffer lives, and the peak. Where buffers lie: arena.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "plan/plan.hpp"

namespace cplab {

// Program order rules: a buffer is born just before operation `birth` and dies just after operation `death`
// (indices into RankPlan::operations).
//   input              born with the first operation of the phase that first reads it, never dies
//                      (death = operations.size()); where other layers run between the phases
//                      (RankPlan::between_layers) and no backward operation reads it, it dies with the
//                      forward
//   output             from first use on, never dies
//   saved              from first to last use
//   working, workspace from first to last use
// Buffers of one slab are one allocation, of the largest of them: from their first to their last use.
// A buffer that no operation touches has birth = death = operations.size() and does not count.
struct Lifetime {
  std::uint32_t birth = 0;
  std::uint32_t death = 0;
  bool operator==(const Lifetime&) const = default;
};

// +bytes at birth, -bytes at death, keyed by (operation, buffer), in program order; at one operation the
// births come before it, the deaths after it. A slab's events name the largest of its buffers.
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
  std::vector<std::uint32_t> peak_buffers;  // alive there, in buffer order; of a slab the largest
  // What stays while other layers run: the bytes alive after the forward's last operation and before the
  // backward's first. 0 unless RankPlan::between_layers and both phases are there.
  std::int64_t saved_bytes = 0;
};

MemoryPlan plan_memory(const RankPlan&);

// By buffer: the buffer that stands for its slab, the largest (the first of several) of those that an
// operation touches; a buffer without slab stands for itself.
std::vector<std::uint32_t> slab_owners(const RankPlan&, const std::vector<bool>& touched);

// Whether a buffer of that category is freed after its last use; the others never are.
bool is_freed(Category);

}  // namespace cplab
