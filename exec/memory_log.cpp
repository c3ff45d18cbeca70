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
  // Buffers of one slab were one block, that of the largest of them.
  std::vector<bool> touched(plan.buffers.size());
  for (const auto& [buffer, extent] : extents) touched[buffer] = true;
  const std::vector<std::uint32_t> owners = slab_owners(plan, touched);
  for (const auto& [buffer, extent] : extents) {
    Extent& all = extents[owners[buffer]];
    all = {std::min(all.first, extent.first), std::max(all.last, extent.last)};
  }
  const auto begin_of = [&](Phase phase) {
    const auto first = std::find_if(plan.operations.begin(), plan.operations.end(),
                                    [&](const Operation& op) { return op.phase == phase; });
    return static_cast<std::uint32_t>(first - plan.operations.begin());
  };
  std::vector<MemoryEvent> events;
  for (const MemoryBlock& block : log.blocks) {
    const auto found = extents.find(block.buffer);
    const Category category = plan.buffers[block.buffer].category;
    // Held by the caller, though never used; by a rank that does nothing at no time that could be named.
    if (found == extents.end() && category == Category::input && !plan.operations.empty())
      events.push_back({0, block.buffer, block.bytes});
    if (found == extents.end() || owners[block.buffer] != block.buffer) continue;
    const auto [first, last] = found->second;
    const bool input = category == Category::input;
    events.push_back({input ? begin_of(plan.operations[first].phase) : first, block.buffer, block.bytes});
    if (is_freed(category)) events.push_back({last, block.buffer, -block.bytes});
    // Between layers an input that the backward does not read is nobody's to keep.
    const std::uint32_t backward = begin_of(Phase::backward);
    if (input && plan.between_layers && backward > 0 && backward < plan.operations.size() && last < backward)
      events.push_back({backward - 1, block.buffer, -block.bytes});
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
