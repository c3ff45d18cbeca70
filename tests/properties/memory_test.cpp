// The memory planner on every plan: buffers that live together never share bytes, and the figures fit.
#include <algorithm>

#include "derive/memory.hpp"

#include <doctest/doctest.h>

#include "algorithms/core/build.hpp"
#include "derive/arena.hpp"
#include "tests/scenarios/scenarios_of.hpp"

using namespace cplab;

TEST_CASE("arena: buffers alive together never share bytes, inputs never share, offsets are aligned") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    for (const RankPlan& rank : build_plan(scenario).ranks) {
      const MemoryPlan memory = plan_memory(rank);
      for (std::size_t a = 0; a < rank.buffers.size(); ++a) {
        const Buffer& x = rank.buffers[a];
        CHECK(x.offset % arena_alignment == 0);
        CHECK(x.offset + x.bytes <= rank.arena_bytes);
        for (std::size_t b = 0; b < a; ++b) {
          const Buffer& y = rank.buffers[b];
          const bool apart = x.offset + x.bytes <= y.offset || y.offset + y.bytes <= x.offset;
          const Lifetime &p = memory.lifetimes[a], &q = memory.lifetimes[b];
          const bool together = p.birth <= q.death && q.birth <= p.death;
          const bool input = x.category == Category::input || y.category == Category::input;
          const bool one_slab = !x.slab.empty() && x.slab == y.slab;
          if (one_slab) CHECK(x.offset == y.offset);
          if (!one_slab && (together || input)) CHECK(apart);
        }
      }
    }
  }
}

TEST_CASE("the peak is what the events add up to, and fits the arena") {
  for (const auto& [name, scenario] : testing::all_scenarios()) {
    CAPTURE(name);
    for (const RankPlan& rank : build_plan(scenario).ranks) {
      const MemoryPlan memory = plan_memory(rank);
      std::int64_t alive = 0, most = 0;
      for (const MemoryEvent& event : memory.events) most = std::max(most, alive += event.bytes);
      CHECK(memory.live_peak_bytes == most);
      CHECK(memory.live_peak_bytes <= rank.arena_bytes);
      std::int64_t named = 0;
      for (const std::uint32_t buffer : memory.peak_buffers) named += rank.buffers[buffer].bytes;
      CHECK(named == most);
    }
  }
}
