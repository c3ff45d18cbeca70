// Plans written by hand; see hand_plans.hpp.
#include "tests/exec/hand_plans.hpp"

#include <algorithm>

#include "derive/arena.hpp"
#include "derive/memory.hpp"
#include "plan/operands.hpp"
#include "tests/hand_plans/hand_plans.hpp"

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
  v.ranges = append(p.row_ranges, ranges.empty() ? std::vector<RowRange>{{0, b.rows, 1}} : ranges);
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
  std::vector<Access> reads;
  for (const std::uint32_t v : read_views) reads.push_back({v, WriteMode::store});
  std::vector<Access> named = writes;
  name_by_position(kind, reads, named);
  op.reads = append(p.accesses, reads);
  op.writes = append(p.accesses, named);
  op.after = append(p.edges, after);
  p.operations.push_back(op);
  return op.ordinal;
}

std::uint32_t Rank::communication(OpKind kind, Lane lane, const std::vector<Part>& parts,
                                  const std::vector<std::uint32_t>& after) {
  const std::uint32_t index = operation(kind, lane, {}, {}, after);
  RankPlan& p = plan();
  p.operations[index].parts = append(p.parts, parts);
  return index;
}

void Rank::segments(std::uint32_t operation, const std::vector<Segment>& segments) {
  RankPlan& p = plan();
  p.operations[operation].segments = append(p.segments, segments);
}

Plan empty_plan(int ranks, DType dtype) {
  Plan plan = ranks_in_one_group(ranks, "all");
  plan.scenario.problem.dtype = dtype;
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
