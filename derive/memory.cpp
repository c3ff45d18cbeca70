// Lifetimes from first and last use, and the live peak by one sweep.
#include "derive/memory.hpp"

#include <algorithm>
#include <map>
#include <string_view>

#include "plan/structure.hpp"

namespace cplab {
namespace {

constexpr std::uint32_t never = UINT32_MAX;

struct Uses {
  std::uint32_t first = never, last = 0;
  bool in_backward = false;
};

std::vector<Uses> uses_of(const RankPlan& plan) {
  std::vector<Uses> uses(plan.buffers.size());
  for (std::uint32_t i = 0; i < plan.operations.size(); ++i) {
    const Operation& op = plan.operations[i];
    const auto touch = [&](std::uint32_t view) {
      if (is_empty(plan, plan.views[view])) return;
      Uses& u = uses[plan.views[view].buffer];
      u.first = std::min(u.first, i);
      u.last = i;
      u.in_backward = u.in_backward || op.phase == Phase::backward;
    };
    for (const Access& a : plan.reads(op)) touch(a.view);
    for (const Access& a : plan.writes(op)) touch(a.view);
    for (const Part& p : plan.parts_of(op)) touch(p.view);
  }
  return uses;
}

// The first operation of a phase; their number if there is none.
std::uint32_t begin_of(const RankPlan& plan, Phase phase) {
  std::uint32_t i = 0;
  while (i < plan.operations.size() && plan.operations[i].phase != phase) ++i;
  return i;
}

Lifetime lifetime_of(const RankPlan& plan, const Buffer& buffer, const Uses& uses) {
  const auto end = static_cast<std::uint32_t>(plan.operations.size());
  // Whoever calls attention holds its inputs, also one that this rank turns out not to need.
  if (uses.first == never) return {buffer.category == Category::input ? 0 : end, end};
  if (is_freed(buffer.category)) return {uses.first, uses.last};
  if (buffer.category == Category::output) return {uses.first, end};
  const std::uint32_t birth = begin_of(plan, plan.operations[uses.first].phase);
  const std::uint32_t backward = begin_of(plan, Phase::backward);
  const bool replaced = plan.between_layers && !uses.in_backward && backward > 0 && backward < end;
  return {birth, replaced ? backward - 1 : end};
}

}  // namespace

bool is_freed(Category category) {
  return category == Category::saved || category == Category::working || category == Category::workspace;
}

std::vector<std::uint32_t> slab_owners(const RankPlan& plan, const std::vector<bool>& touched) {
  std::vector<std::uint32_t> owners(plan.buffers.size());
  std::map<std::string_view, std::uint32_t> largest;
  for (std::uint32_t b = 0; b < owners.size(); ++b) {
    owners[b] = b;
    const Buffer& buffer = plan.buffers[b];
    if (buffer.slab.empty() || !touched[b]) continue;
    const auto [at, fresh] = largest.try_emplace(buffer.slab, b);
    if (!fresh && buffer.bytes > plan.buffers[at->second].bytes) at->second = b;
  }
  for (std::uint32_t b = 0; b < owners.size(); ++b)
    if (!plan.buffers[b].slab.empty() && touched[b]) owners[b] = largest[plan.buffers[b].slab];
  return owners;
}

MemoryPlan plan_memory(const RankPlan& plan) {
  MemoryPlan memory;
  const auto end = static_cast<std::uint32_t>(plan.operations.size());
  const std::vector<Uses> uses = uses_of(plan);
  std::vector<bool> touched;
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    memory.lifetimes.push_back(lifetime_of(plan, plan.buffers[b], uses[b]));
    touched.push_back(uses[b].first != never);
  }
  const std::vector<std::uint32_t> owners = slab_owners(plan, touched);
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    if (owners[b] == b) continue;
    Lifetime& all = memory.lifetimes[owners[b]];
    all = {std::min(all.birth, memory.lifetimes[b].birth), std::max(all.death, memory.lifetimes[b].death)};
  }
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    memory.lifetimes[b] = memory.lifetimes[owners[b]];
    if (owners[b] != b) continue;
    const Lifetime& life = memory.lifetimes[b];
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
  const std::uint32_t backward = begin_of(plan, Phase::backward);
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b) {
    const Lifetime& life = memory.lifetimes[b];
    if (owners[b] != b || life.birth == end) continue;
    if (life.birth <= memory.peak_operation && memory.peak_operation <= life.death)
      memory.peak_buffers.push_back(b);
    if (plan.between_layers && backward < end && life.birth < backward && life.death >= backward)
      memory.saved_bytes += plan.buffers[b].bytes;
  }
  return memory;
}

}  // namespace cplab
