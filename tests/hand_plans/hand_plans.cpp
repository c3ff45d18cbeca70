// The builder of plans written by hand; see hand_plans.hpp.
#include "tests/hand_plans/hand_plans.hpp"

#include <algorithm>
#include <utility>

#include "derive/arena.hpp"
#include "derive/edges.hpp"

namespace cplab::hand {

using enum Operand;

At heads_of(std::uint32_t buffer, std::int32_t begin, std::int32_t end) {
  At at{buffer};
  at.head_begin = begin, at.head_end = end;
  return at;
}
At rows_of(std::uint32_t buffer, std::int64_t begin, std::int64_t count) {
  At at{buffer};
  at.row = begin, at.rows = count;
  return at;
}

Part send(ViewIndex view, int peer) {
  return {view, peer, true};
}
Part receive(ViewIndex view, int peer) {
  return {view, peer, false};
}

Rank::Rank(Plan& plan, int rank) : plan_(&plan), index_(static_cast<std::size_t>(rank)) {
  phase(Phase::forward);
}

void Rank::phase(Phase p) {
  phase_ = p;
  ordinal_ = static_cast<std::uint32_t>(std::ranges::count(plan().operations, p, &Operation::phase));
}

std::uint32_t Rank::buffer(Buffer b, std::int64_t at) {
  RankPlan& p = plan();
  b.bytes = b.slots * b.rows * b.heads * b.width * element_bytes(b.role, plan_->scenario.problem.dtype);
  b.offset = at < 0 ? p.arena_bytes : at;
  const std::int64_t end = b.offset + b.bytes;
  p.arena_bytes = std::max(p.arena_bytes, (end + arena_alignment - 1) / arena_alignment * arena_alignment);
  p.buffers.push_back(std::move(b));
  return static_cast<std::uint32_t>(p.buffers.size() - 1);
}

std::uint32_t Rank::buffer(std::string name, Role role, Category category, std::int64_t slots,
                           std::int64_t rows, std::int64_t heads, std::int64_t width) {
  Buffer b;
  b.name = std::move(name);
  b.role = role;
  b.category = category;
  b.slots = slots, b.rows = rows, b.heads = heads, b.width = width;
  return buffer(std::move(b));
}

ViewIndex Rank::view(const At& at, const std::vector<RowRange>& row_map) {
  RankPlan& p = plan();
  const Buffer& b = p.buffers[at.buffer];
  const auto end = [](std::int32_t given, std::int64_t extent) {
    return given < 0 ? static_cast<std::int32_t>(extent) : given;
  };
  View v;
  v.buffer = at.buffer;
  v.ranges = append(p.row_ranges, row_map);
  v.slot_begin = at.slot, v.slot_end = end(at.slots < 0 ? -1 : at.slot + at.slots, b.slots);
  v.head_begin = at.head_begin, v.head_end = end(at.head_end, b.heads);
  v.width_begin = at.width_begin, v.width_end = end(at.width_end, b.width);
  p.views.push_back(v);
  return static_cast<ViewIndex>(p.views.size() - 1);
}

ViewIndex Rank::view(const At& at) {
  const std::int64_t rows = at.rows < 0 ? plan().buffers[at.buffer].rows - at.row : at.rows;
  return view(at, std::vector<RowRange>{{at.row, rows, 1}});
}

std::uint32_t Rank::operation(Lane lane, OpKind kind, const std::vector<Access>& reads,
                              const std::vector<Access>& writes, const After& after) {
  RankPlan& p = plan();
  Operation o;
  o.kind = kind;
  o.phase = phase_;
  o.lane = lane;
  o.step = step;
  o.ordinal = ordinal_++;
  o.reads = append(p.accesses, reads);
  o.writes = append(p.accesses, writes);
  o.after = append(p.edges, after);
  p.operations.push_back(o);
  return static_cast<std::uint32_t>(p.operations.size() - 1);
}

std::uint32_t Rank::attend(Lane lane, const Attend& a, const std::vector<Segment>& segments,
                           const After& after) {
  std::vector<Access> writes{{a.out, a.mode, out}, {a.lse, a.mode, lse}};
  if (a.max_logit) writes.push_back({*a.max_logit, WriteMode::max, Operand::max_logit});
  const std::uint32_t i =
      operation(lane, OpKind::attend, {{a.q, store, q}, {a.k, store, k}, {a.v, store, v}}, writes, after);
  op(i).segments = append(plan().segments, segments);
  op(i).value = logit_scale;
  op(i).head_begin = plan().views[a.q].head_begin;
  op(i).head_end = plan().views[a.q].head_end;
  return i;
}

std::uint32_t Rank::attend_backward(Lane lane, const AttendBackward& a, const std::vector<Segment>& segments,
                                    const After& after) {
  const std::uint32_t i =
      operation(lane, OpKind::attend_backward,
                {{a.q, store, q},
                 {a.k, store, k},
                 {a.v, store, v},
                 {a.dout, store, dout},
                 {a.lse, store, lse},
                 {a.delta, store, delta}},
                {{a.dq, a.dq_mode, dq}, {a.dk, a.dkv_mode, dk}, {a.dv, a.dkv_mode, dv}}, after);
  op(i).segments = append(plan().segments, segments);
  op(i).value = logit_scale;
  op(i).head_begin = plan().views[a.q].head_begin;
  op(i).head_end = plan().views[a.q].head_end;
  return i;
}

std::uint32_t Rank::row_dot(Lane lane, ViewIndex dout_, ViewIndex out_, ViewIndex delta_,
                            const After& after) {
  return operation(lane, OpKind::row_dot, {{dout_, store, dout}, {out_, store, out}},
                   {{delta_, store, delta}}, after);
}

std::uint32_t Rank::merge_out(Lane lane, ViewIndex part_out_, ViewIndex part_lse_, ViewIndex out_,
                              ViewIndex lse_, const After& after) {
  return operation(lane, OpKind::merge, {{part_out_, store, part_out}, {part_lse_, store, part_lse}},
                   {{out_, merge, out}, {lse_, merge, lse}}, after);
}
std::uint32_t Rank::merge_lse(Lane lane, ViewIndex part_lse_, ViewIndex lse_, const After& after) {
  return operation(lane, OpKind::merge, {{part_lse_, store, part_lse}}, {{lse_, merge, lse}}, after);
}
std::uint32_t Rank::rescale(Lane lane, ViewIndex part_out_, ViewIndex part_lse_, ViewIndex lse_,
                            ViewIndex out_, WriteMode mode, const After& after) {
  return operation(lane, OpKind::merge,
                   {{part_out_, store, part_out}, {part_lse_, store, part_lse}, {lse_, store, lse}},
                   {{out_, mode, out}}, after);
}

std::uint32_t Rank::copy(Lane lane, ViewIndex from_, ViewIndex into_, const After& after) {
  return operation(lane, OpKind::copy, {{from_, store, from}}, {{into_, store, into}}, after);
}
std::uint32_t Rank::cast(Lane lane, ViewIndex from_, ViewIndex into_, const After& after) {
  return operation(lane, OpKind::cast, {{from_, store, from}}, {{into_, store, into}}, after);
}
std::uint32_t Rank::add_to(Lane lane, ViewIndex from_, ViewIndex into_, const After& after) {
  return operation(lane, OpKind::add, {{from_, store, from}}, {{into_, add, into}}, after);
}
std::uint32_t Rank::raise(Lane lane, ViewIndex from_, ViewIndex into_, const After& after) {
  return operation(lane, OpKind::maximum, {{from_, store, from}}, {{into_, WriteMode::max, into}}, after);
}
std::uint32_t Rank::fill(Lane lane, ViewIndex into_, double value, const After& after) {
  const std::uint32_t i = operation(lane, OpKind::fill, {}, {{into_, store, into}}, after);
  op(i).value = value;
  return i;
}

std::uint32_t Rank::all_reduce(Lane lane, ViewIndex from_, ViewIndex into_, const After& after,
                               Reduction reduction, std::uint16_t group) {
  const std::uint32_t i =
      operation(lane, OpKind::all_reduce, {{from_, store, from}}, {{into_, store, into}}, after);
  op(i).reduction = reduction;
  op(i).group = group;
  return i;
}

std::uint32_t Rank::host_sync(Lane lane, const After& after) {
  return operation(lane, OpKind::host_sync, {}, {}, after);
}

std::uint32_t Rank::communicate(Lane lane, OpKind kind, const std::vector<Part>& parts, const After& after,
                                std::uint16_t group) {
  const std::uint32_t i = operation(lane, kind, {}, {}, after);
  op(i).parts = append(plan().parts, parts);
  op(i).group = group;
  return i;
}

std::uint32_t Rank::find(const std::string& buffer) const {
  const auto& all = plan().buffers;
  return static_cast<std::uint32_t>(std::ranges::find(all, buffer, &Buffer::name) - all.begin());
}

Plan ranks_in_one_group(int ranks, std::string group_name, DType dtype) {
  Plan plan;
  Group group{std::move(group_name), {}};
  for (int r = 0; r < ranks; ++r) {
    group.ranks.push_back(r);
    RankPlan rank;
    rank.rank = rank.position = r;
    plan.ranks.push_back(rank);
  }
  plan.scenario.problem.dtype = dtype;
  plan.scenario.parallel.ranks = ranks;
  plan.scenario.parallel.groups = {group.ranks};
  plan.groups = {group};
  return plan;
}

std::int64_t rows_of_rank(const Plan& plan) {
  const std::int64_t P = plan.scenario.parallel.ranks;
  const bool stream = plan.scenario.placement == "stream";
  std::int64_t rows = 0;
  for (const std::int64_t padded : plan.scenario.problem.padded_lengths)
    rows += stream ? padded : (padded + P - 1) / P;
  return stream ? (rows + P - 1) / P : rows;
}

Buffer column(const std::string& name, std::int64_t rows, Category category) {
  Buffer b;
  b.name = name;
  b.category = category;
  b.rows = rows;
  return b;
}

Plan with_edges(Plan plan) {
  for (RankPlan& rank : plan.ranks) derive_edges(rank);
  return plan;
}

}  // namespace cplab::hand
