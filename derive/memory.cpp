// Lifetimes from first and last use, the live peak by one sweep, and arena offsets by first fit of the
// largest buffers first (the "greedy by size" rule of Pisarchyk and Lee 2020, arXiv 2001.03288).
#include "derive/memory.hpp"

#include <algorithm>
#include <numeric>

namespace cplab {
namespace {

constexpr std::uint32_t never = UINT32_MAX;

struct Uses {
  std::uint32_t first = never, last = 0;
};

std::vector<Uses> uses_of(const RankPlan& plan) {
  std::vector<Uses> uses(plan.buffers.size());
  for (std::uint32_t i = 0; i < plan.operations.size(); ++i) {
    const Operation& op = plan.operations[i];
    const auto touch = [&](std::uint32_t view) {
      Uses& u = uses[plan.views[view].buffer];
      u.first = std::min(u.first, i);
      u.last = i;
    };
    for (const Access& a : plan.reads(op)) touch(a.view);
    for (const Access& a : plan.writes(op)) touch(a.view);
    for (const Part& p : plan.parts_of(op)) touch(p.view);
  }
  return uses;
}

Lifetime lifetime_of(const RankPlan& plan, const Buffer& buffer, const Uses& uses) {
  const auto end = static_cast<std::uint32_t>(plan.operations.size());
  if (uses.first == never) return {end, end};
  switch (buffer.category) {
    case Category::input: {
      std::uint32_t birth = 0;  // the first operation of the phase
      while (plan.operations[birth].phase != plan.operations[uses.first].phase) ++birth;
      return {birth, end};
    }
    case Category::output: return {uses.first, end};
    case Category::working:
    case Category::workspace: return {uses.first, uses.last};
  }
  return {end, end};
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

void place_in_arena(const RankPlan& plan, MemoryPlan& memory) {
  const auto end = static_cast<std::uint32_t>(plan.operations.size());
  // Inputs are there before the first operation and again before every repetition: they share with nobody.
  const auto alive = [&](std::uint32_t b) {
    return plan.buffers[b].category == Category::input ? Lifetime{0, end} : memory.lifetimes[b];
  };
  std::vector<std::uint32_t> order(plan.buffers.size()), placed;
  std::iota(order.begin(), order.end(), 0u);
  std::stable_sort(order.begin(), order.end(),
                   [&](auto a, auto b) { return plan.buffers[a].bytes > plan.buffers[b].bytes; });
  memory.offsets.assign(plan.buffers.size(), 0);
  for (const std::uint32_t b : order) {
    if (memory.lifetimes[b].birth == end || plan.buffers[b].bytes == 0) continue;
    std::vector<std::pair<std::int64_t, std::int64_t>>
        taken;  // byte ranges of buffers alive at the same time
    for (const std::uint32_t other : placed) {
      if (alive(b).birth <= alive(other).death && alive(other).birth <= alive(b).death)
        taken.emplace_back(memory.offsets[other], memory.offsets[other] + aligned(plan.buffers[other].bytes));
    }
    std::sort(taken.begin(), taken.end());
    std::int64_t offset = 0;
    for (const auto& [from, to] : taken) {
      if (offset + aligned(plan.buffers[b].bytes) <= from) break;
      offset = std::max(offset, to);
    }
    memory.offsets[b] = offset;
    memory.arena_bytes = std::max(memory.arena_bytes, offset + aligned(plan.buffers[b].bytes));
    placed.push_back(b);
  }
}

}  // namespace

MemoryPlan plan_memory(const RankPlan& plan) {
  MemoryPlan memory;
  const auto end = static_cast<std::uint32_t>(plan.operations.size());
  const std::vector<Uses> uses = uses_of(plan);
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const Lifetime life = lifetime_of(plan, plan.buffers[b], uses[b]);
    memory.lifetimes.push_back(life);
    if (life.birth < end) memory.events.push_back({life.birth, b, plan.buffers[b].bytes});
    if (life.death < end) memory.events.push_back({life.death, b, -plan.buffers[b].bytes});
  }
  std::stable_sort(
      memory.events.begin(), memory.events.end(), [](const MemoryEvent& a, const MemoryEvent& b) {
        return a.operation != b.operation ? a.operation < b.operation : (a.bytes >= 0) > (b.bytes >= 0);
      });
  std::int64_t live = 0;
  for (const MemoryEvent& event : memory.events) {
    live += event.bytes;
    if (live > memory.live_peak_bytes) {
      memory.live_peak_bytes = live;
      memory.peak_operation = event.operation;
    }
  }
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const Lifetime& life = memory.lifetimes[b];
    if (life.birth < end && life.birth <= memory.peak_operation && memory.peak_operation <= life.death)
      memory.peak_buffers.push_back(b);
  }
  place_in_arena(plan, memory);
  return memory;
}

}  // namespace cplab
