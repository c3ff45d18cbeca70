// Births and deaths from an execution's log; see memory_log.hpp.
#include "exec/memory_log.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

namespace cplab {

std::vector<MemoryEvent> memory_events(const RankPlan& plan, const MemoryLog& log) {
  struct Extent {
    std::uint32_t first = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t last = 0;
  };
  std::map<std::uint32_t, Extent> extents;
  for (const MemoryUse& use : log.uses) {
    Extent& extent = extents[use.buffer];
    extent.first = std::min(extent.first, use.operation);
    extent.last = std::max(extent.last, use.operation);
  }
  std::vector<MemoryEvent> events;
  for (const MemoryBlock& block : log.blocks) {
    const auto found = extents.find(block.buffer);
    if (found == extents.end()) continue;  // loaded, and never used
    const Category category = plan.buffers[block.buffer].category;
    std::uint32_t birth = found->second.first;
    if (category == Category::input) {
      const Phase phase = plan.operations[birth].phase;
      const auto first = std::find_if(plan.operations.begin(), plan.operations.end(),
                                      [&](const Operation& op) { return op.phase == phase; });
      birth = static_cast<std::uint32_t>(first - plan.operations.begin());
    }
    events.push_back({birth, block.buffer, block.bytes});
    if (category == Category::working || category == Category::workspace) {
      events.push_back({found->second.last, block.buffer, -block.bytes});
    }
  }
  std::sort(events.begin(), events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
    return std::make_tuple(a.operation, a.bytes < 0, a.buffer) <
           std::make_tuple(b.operation, b.bytes < 0, b.buffer);
  });
  return events;
}

bool equals_plan(const RankPlan& plan, const MemoryLog& log) {
  using Key = std::tuple<std::uint32_t, std::uint32_t, std::int64_t>;
  const auto keys = [](const std::vector<MemoryEvent>& events) {
    std::vector<Key> out;
    for (const MemoryEvent& e : events) out.emplace_back(e.operation, e.buffer, e.bytes);
    std::sort(out.begin(), out.end());
    return out;
  };
  return keys(memory_events(plan, log)) == keys(plan_memory(plan).events);
}

}  // namespace cplab
