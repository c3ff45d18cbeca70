// Where the buffers of a rank lie in its arena.
#pragma once

#include <cstdint>

#include "plan/plan.hpp"

namespace cplab {

inline constexpr std::int64_t arena_alignment = 256;

// Which buffers may share bytes (schedule.reuse). peak: any two whose lifetimes do not overlap; edges then
// make the later one wait for the earlier, also across lanes. time: only two where data dependencies already
// put every use of one before every use of the other, so that no operation waits for memory alone.
enum class Reuse : std::uint8_t { time, peak };

Reuse reuse_of(const Schedule&);

// Sets Buffer::offset (multiples of arena_alignment; buffers of one slab lie at one offset) and
// RankPlan::arena_bytes: first fit of the largest buffers first (the "greedy by size" rule of Pisarchyk and
// Lee 2020, arXiv 2001.03288). Edges are to be derived afterwards (edges.hpp).
void place_in_arena(RankPlan&, Reuse);

// Both, offsets and edges. With Reuse::time memory adds no edge, so that the plan is gone through once.
void lay_out(RankPlan&, Reuse);

// What the other choice would cost, by rank: bytes of the arena, and edges that order nothing but memory.
struct ArenaCost {
  std::int64_t arena_bytes = 0;
  std::int64_t waits = 0;  // edges beyond those that the data needs
};
ArenaCost arena_cost(const RankPlan&, Reuse);

}  // namespace cplab
