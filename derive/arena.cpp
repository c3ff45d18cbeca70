// Arena offsets by first fit.
#include "derive/arena.hpp"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "derive/edges.hpp"
#include "derive/memory.hpp"

namespace cplab {
namespace {

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
}

class Arena {
 public:
  // `order`: of the data, needed for Reuse::time alone.
  Arena(RankPlan& plan, Reuse reuse, DataOrder order)
      : plan_(plan), reuse_(reuse), memory_(plan_memory(plan)), order_(std::move(order)) {
    const auto end = static_cast<std::uint32_t>(plan.operations.size());
    std::vector<bool> touched;
    for (const Lifetime& life : memory_.lifetimes) touched.push_back(life.birth < end);
    owners_ = slab_owners(plan, touched);
    members_.resize(owners_.size());
    for (std::uint32_t b = 0; b < owners_.size(); ++b) members_[owners_[b]].push_back(b);
  }

  void place() {
    std::vector<std::uint32_t> order(plan_.buffers.size()), placed;
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](auto a, auto b) { return plan_.buffers[a].bytes > plan_.buffers[b].bytes; });
    plan_.arena_bytes = 0;
    for (Buffer& buffer : plan_.buffers) buffer.offset = 0;
    for (const std::uint32_t b : order) {
      const std::int64_t bytes = aligned(plan_.buffers[b].bytes);
      if (is_absent(b) || bytes == 0 || owners_[b] != b) continue;
      std::vector<std::pair<std::int64_t, std::int64_t>>
          taken;  // byte ranges of buffers that b may not share
      for (const std::uint32_t other : placed)
        if (!may_share(b, other))
          taken.emplace_back(plan_.buffers[other].offset,
                             plan_.buffers[other].offset + aligned(plan_.buffers[other].bytes));
      std::sort(taken.begin(), taken.end());
      std::int64_t offset = 0;
      for (const auto& [from, to] : taken) {
        if (offset + bytes <= from) break;
        offset = std::max(offset, to);
      }
      plan_.buffers[b].offset = offset;
      plan_.arena_bytes = std::max(plan_.arena_bytes, offset + bytes);
      placed.push_back(b);
    }
    for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
      plan_.buffers[b].offset = plan_.buffers[owners_[b]].offset;
  }

 private:
  // No operation touches the buffer. Inputs are there from the beginning, also on a rank that has nothing to
  // do.
  bool is_absent(std::uint32_t b) const {
    const std::size_t end = plan_.operations.size();
    return memory_.lifetimes[b].birth == end && !(end == 0 && plan_.buffers[b].category == Category::input);
  }

  // Inputs are written before the first operation, and read again in every repetition: they share with no
  // other buffer. Outputs are read after the last operation.
  bool may_share(std::uint32_t a, std::uint32_t b) const {
    if (plan_.buffers[a].category == Category::input || plan_.buffers[b].category == Category::input)
      return false;
    return goes_before(a, b) || goes_before(b, a);
  }

  bool goes_before(std::uint32_t a, std::uint32_t b) const {
    if (memory_.lifetimes[a].death >= memory_.lifetimes[b].birth) return false;
    if (reuse_ == Reuse::peak) return true;
    for (const std::uint32_t x : members_[a])
      for (const std::uint32_t y : members_[b])
        if (!order_.before(x, y)) return false;
    return true;
  }

  RankPlan& plan_;
  Reuse reuse_;
  MemoryPlan memory_;
  std::vector<std::uint32_t> owners_;                // by buffer: itself, or what stands for its slab
  std::vector<std::vector<std::uint32_t>> members_;  // of each owner
  DataOrder order_;
};

}  // namespace

Reuse reuse_of(const Schedule& schedule) {
  return schedule.is_word("reuse", "peak") ? Reuse::peak : Reuse::time;
}

void place_in_arena(RankPlan& plan, Reuse reuse) {
  Arena(plan, reuse, reuse == Reuse::time ? order_of_data(plan) : DataOrder()).place();
}

void lay_out(RankPlan& plan, Reuse reuse) {
  if (reuse == Reuse::time) return Arena(plan, reuse, derive_data_edges(plan)).place();
  place_in_arena(plan, reuse);
  derive_edges(plan);
}

ArenaCost arena_cost(const RankPlan& plan, Reuse reuse) {
  RankPlan copy = plan;
  derive_data_edges(copy);
  const auto needed = static_cast<std::int64_t>(copy.edges.size());
  lay_out(copy, reuse);
  return {copy.arena_bytes, static_cast<std::int64_t>(copy.edges.size()) - needed};
}

}  // namespace cplab
