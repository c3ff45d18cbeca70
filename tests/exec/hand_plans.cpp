// Plans written by hand; see hand_plans.hpp.
#include "tests/exec/hand_plans.hpp"

#include <algorithm>
#include <numeric>

#include "algorithms/memory.hpp"

namespace cplab::hand {

Rank::Rank(Plan& plan, int rank) : plan_(plan), index_(static_cast<std::size_t>(rank)) {}

std::uint32_t Rank::buffer(Buffer b, std::int64_t at) {
  RankPlan& p = plan();
  b.bytes = b.slots * b.rows * b.heads * b.width * element_bytes(b.role, plan_.scenario.problem.dtype);
  b.offset = at < 0 ? p.arena_bytes : at;
  const std::int64_t end = b.offset + b.bytes;
  p.arena_bytes = std::max(p.arena_bytes, (end + arena_alignment - 1) / arena_alignment * arena_alignment);
  p.buffers.push_back(b);
  return static_cast<std::uint32_t>(p.buffers.size() - 1);
}

std::uint32_t Rank::view(std::uint32_t buffer, const std::vector<RowRange>& ranges, int slot_begin,
                         int slot_end, int head_begin, int head_end, int width_begin, int width_end) {
  RankPlan& p = plan();
  const Buffer& b = p.buffers[buffer];
  const auto all = [](int end, std::int64_t extent) {
    return end < 0 ? static_cast<std::int32_t>(extent) : end;
  };
  View v;
  v.buffer = buffer;
  v.ranges.first = static_cast<std::uint32_t>(p.row_ranges.size());
  if (ranges.empty()) {
    p.row_ranges.push_back({0, b.rows, 1});
  } else {
    p.row_ranges.insert(p.row_ranges.end(), ranges.begin(), ranges.end());
  }
  v.ranges.count = static_cast<std::uint32_t>(p.row_ranges.size()) - v.ranges.first;
  v.slot_begin = slot_begin;
  v.slot_end = all(slot_end, b.slots);
  v.head_begin = head_begin;
  v.head_end = all(head_end, b.heads);
  v.width_begin = width_begin;
  v.width_end = all(width_end, b.width);
  p.views.push_back(v);
  return static_cast<std::uint32_t>(p.views.size() - 1);
}

std::uint32_t Rank::operation(OpKind kind, Lane lane, const std::vector<std::uint32_t>& read_views,
                              const std::vector<Access>& writes, const std::vector<std::uint32_t>& after,
                              double value) {
  RankPlan& p = plan();
  Operation op;
  op.kind = kind;
  op.lane = lane;
  op.ordinal = static_cast<std::uint32_t>(p.operations.size());
  op.value = value;
  op.reads.first = static_cast<std::uint32_t>(p.accesses.size());
  for (const std::uint32_t v : read_views) p.accesses.push_back({v, WriteMode::store});
  op.reads.count = static_cast<std::uint32_t>(read_views.size());
  op.writes.first = static_cast<std::uint32_t>(p.accesses.size());
  p.accesses.insert(p.accesses.end(), writes.begin(), writes.end());
  op.writes.count = static_cast<std::uint32_t>(writes.size());
  op.after.first = static_cast<std::uint32_t>(p.edges.size());
  p.edges.insert(p.edges.end(), after.begin(), after.end());
  op.after.count = static_cast<std::uint32_t>(after.size());
  p.operations.push_back(op);
  return op.ordinal;
}

std::uint32_t Rank::communication(OpKind kind, Lane lane, const std::vector<Part>& parts,
                                  const std::vector<std::uint32_t>& after) {
  const std::uint32_t index = operation(kind, lane, {}, {}, after);
  RankPlan& p = plan();
  p.operations[index].parts = {static_cast<std::uint32_t>(p.parts.size()),
                               static_cast<std::uint32_t>(parts.size())};
  p.parts.insert(p.parts.end(), parts.begin(), parts.end());
  return index;
}

void Rank::segments(std::uint32_t operation, const std::vector<Segment>& segments) {
  RankPlan& p = plan();
  p.operations[operation].segments = {static_cast<std::uint32_t>(p.segments.size()),
                                      static_cast<std::uint32_t>(segments.size())};
  p.segments.insert(p.segments.end(), segments.begin(), segments.end());
}

Plan empty_plan(int ranks, DType dtype) {
  Plan plan;
  plan.scenario.problem.dtype = dtype;
  plan.scenario.parallel.ranks = ranks;
  Group group{"all", std::vector<int>(static_cast<std::size_t>(ranks))};
  std::iota(group.ranks.begin(), group.ranks.end(), 0);
  plan.scenario.parallel.groups = {group.ranks};
  plan.groups = {group};
  plan.ranks.resize(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    plan.ranks[static_cast<std::size_t>(r)].rank = r;
    plan.ranks[static_cast<std::size_t>(r)].position = r;
  }
  return plan;
}

Buffer column(const std::string& name, std::int64_t rows, Category category) {
  Buffer b;
  b.name = name;
  b.category = category;
  b.rows = rows;
  return b;
}

}  // namespace cplab::hand
