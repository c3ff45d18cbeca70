// Emission of operations: interning of views and lists, bytes and FLOPs.
#include "algorithms/builder.hpp"

#include <stdexcept>
#include <utility>

#include "algorithms/builder_pools.hpp"
#include "derive/arena.hpp"
#include "plan/live_pairs.hpp"
#include "plan/operands.hpp"

namespace cplab {
Builder::Builder(const Scenario& resolved, const Placement& placement, int replica, int position,
                 std::vector<Team> teams)
    : scenario_(resolved),
      placement_(placement),
      pools_(std::make_unique<Pools>()),
      teams_(std::move(teams)) {
  plan_.replica = replica;
  plan_.between_layers = cplab::between_layers(resolved.schedule);
  plan_.position = position;
  plan_.rank =
      resolved.parallel.groups[static_cast<std::size_t>(replica)][static_cast<std::size_t>(position)];
}

Builder::~Builder() = default;

bool Builder::has_wide() const {
  return dtype_of(Role::wide, problem().dtype) != dtype_of(Role::nominal, problem().dtype);
}

const Team& Builder::team(std::string_view name) const {
  for (const Team& team : teams_)
    if (team.name == name) return team;
  throw std::logic_error("rank " + std::to_string(plan_.rank) + " is in no team " + std::string(name));
}

Tile Builder::tile(int key_position, bool whole) const {
  return tile_between(placement_, problem().visible(), position(), key_position, whole);
}

Rows Builder::live_key_rows(int q_position, int key_position) const {
  return cplab::live_key_rows(placement_, problem().visible(), q_position, key_position);
}

Span Builder::intern_ranges(const std::vector<RowRange>& ranges) {
  return pools_->ranges(plan_.row_ranges, ranges);
}

std::uint32_t Builder::intern_view(const View& view) {
  pools_->view_list.assign(1, view);
  return pools_->views(plan_.views, pools_->view_list).first;
}

Box Builder::buffer(const BufferSpec& spec) {
  Buffer buffer;
  buffer.name = spec.name;
  buffer.role = spec.role;
  buffer.category = spec.category;
  buffer.layout = spec.layout;
  buffer.slots = spec.slots;
  buffer.rows = spec.rows;
  buffer.heads = spec.heads;
  buffer.width = spec.width;
  buffer.planes = spec.planes;
  buffer.bytes = spec.slots * spec.rows * spec.heads * spec.width * element_bytes(spec.role, problem().dtype);
  Box box;
  box.builder_ = this;
  box.view_.buffer = static_cast<std::uint32_t>(plan_.buffers.size());
  box.view_.slot_end = static_cast<std::int32_t>(spec.slots);
  box.view_.head_end = static_cast<std::int32_t>(spec.heads);
  box.view_.width_end = static_cast<std::int32_t>(spec.width);
  buffer.slab = spec.slab;
  first_heads_.push_back(spec.first_head);
  plan_.buffers.push_back(std::move(buffer));
  return box.first_rows(spec.rows);
}

Box Box::slot(std::int64_t index) const {
  Box box = *this;
  box.view_.slot_begin = static_cast<std::int32_t>(index);
  box.view_.slot_end = static_cast<std::int32_t>(index + 1);
  return box;
}

Box Box::rows(const Rows& rows) const {
  Box box = *this;
  box.view_.ranges = builder_->intern_ranges(rows.ranges());
  return box;
}

Box Box::rows(const std::vector<RowRange>& rows) const {
  Box box = *this;
  box.view_.ranges = builder_->intern_ranges(rows);
  return box;
}

Box Box::first_rows(std::int64_t count) const {
  return rows_at(0, count);
}

Box Box::rows_at(std::int64_t begin, std::int64_t count) const {
  Box box = *this;
  std::vector<RowRange>& list = builder_->pools_->range_list;
  list.clear();
  if (count > 0) list.push_back({begin, count, 1});
  box.view_.ranges = builder_->intern_ranges(list);
  return box;
}

Box Box::heads(std::int64_t begin, std::int64_t end) const {
  Box box = *this;
  box.view_.head_begin = static_cast<std::int32_t>(begin);
  box.view_.head_end = static_cast<std::int32_t>(end);
  return box;
}

Box Box::columns(std::int64_t begin, std::int64_t end) const {
  Box box = *this;
  box.view_.width_begin = static_cast<std::int32_t>(begin);
  box.view_.width_end = static_cast<std::int32_t>(end);
  return box;
}

void Builder::phase(Phase phase) {
  if (phase != phase_) ordinal_ = 0;
  phase_ = phase;
  step_ = 0;
}

Operation& Builder::emit(Lane lane, OpKind kind, std::initializer_list<Box> reads,
                         std::initializer_list<std::pair<Box, WriteMode>> writes) {
  Operation op;
  op.kind = kind;
  op.phase = phase_;
  op.lane = lane;
  op.group = static_cast<std::uint16_t>(plan_.replica);
  op.step = step_;
  op.ordinal = ordinal_++;
  const DType dtype = problem().dtype;
  std::vector<Access>& list = pools_->access_list;
  list.clear();
  for (const Box& box : reads) {
    list.push_back({intern_view(box.view()), WriteMode::store});
    op.bytes += view_bytes(plan_, box.view(), dtype);
  }
  std::vector<Access>& written = pools_->written_list;
  written.clear();
  for (const auto& [box, mode] : writes) {
    written.push_back({intern_view(box.view()), mode});
    op.bytes += view_bytes(plan_, box.view(), dtype) * (mode == WriteMode::store ? 1 : 2);
  }
  name_by_position(kind, list, written);  // the emitting functions below keep the table's order
  op.reads = pools_->accesses(plan_.accesses, list);
  op.writes = pools_->accesses(plan_.accesses, written);
  if (!starts_.empty()) op.after_started = pools_->edges(plan_.edges, starts_);
  starts_.clear();
  plan_.operations.push_back(op);
  return plan_.operations.back();
}

void Builder::attach_segments(Operation& op, const std::vector<Segment>& segments, const Box& q) {
  op.segments = pools_->segments(plan_.segments, segments);
  const auto first_head = static_cast<std::int32_t>(first_heads_[q.view().buffer]);
  op.head_begin = first_head + q.view().head_begin;
  op.head_end = first_head + q.view().head_end;
  op.value = problem().scale;
  double pairs = 0;
  for (const Segment& s : segments) pairs += live_pairs(s);
  op.flops = pairs * (op.head_end - op.head_begin) *
             flops_per_pair(op.kind, problem().head_size, problem().value_size);
}

void Builder::attend(Lane lane, const Attend& a) {
  Operation& op = a.max_logit.absent()
                      ? emit(lane, OpKind::attend, {a.q, a.k, a.v}, {{a.out, a.mode}, {a.lse, a.mode}})
                      : emit(lane, OpKind::attend, {a.q, a.k, a.v},
                             {{a.out, a.mode}, {a.lse, a.mode}, {a.max_logit, WriteMode::max}});
  attach_segments(op, a.segments, a.q);
}

void Builder::attend_backward(Lane lane, const AttendBackward& a) {
  Operation& op = emit(lane, OpKind::attend_backward, {a.q, a.k, a.v, a.dout, a.lse, a.delta},
                       {{a.dq, a.dq_mode}, {a.dk, a.dk_mode}, {a.dv, a.dk_mode}});
  attach_segments(op, a.segments, a.q);
}

void Builder::row_dot(Lane lane, const Box& dout, const Box& out, const Box& delta) {
  emit(lane, OpKind::row_dot, {dout, out}, {{delta, WriteMode::store}});
}

void Builder::merge(Lane lane, const Box& part_out, const Box& part_lse, const Box& out, const Box& lse) {
  emit(lane, OpKind::merge, {part_out, part_lse}, {{out, WriteMode::merge}, {lse, WriteMode::merge}});
}

void Builder::merge_lse(Lane lane, const Box& part_lse, const Box& lse) {
  emit(lane, OpKind::merge, {part_lse}, {{lse, WriteMode::merge}});
}

void Builder::rescale_add(Lane lane, const Box& part_out, const Box& part_lse, const Box& lse,
                          const Box& out) {
  emit(lane, OpKind::merge, {part_out, part_lse, lse}, {{out, WriteMode::add}});
}

void Builder::copy(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::copy, {from}, {{into, WriteMode::store}});
}

void Builder::cast(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::cast, {from}, {{into, WriteMode::store}});
}

void Builder::convert(Lane lane, const Box& from, const Box& into) {
  const auto role = [&](const Box& box) { return plan_.buffers[box.view().buffer].role; };
  role(from) == role(into) ? copy(lane, from, into) : cast(lane, from, into);
}

void Builder::add(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::add, {from}, {{into, WriteMode::add}});
}

void Builder::maximum(Lane lane, const Box& from, const Box& into) {
  emit(lane, OpKind::maximum, {from}, {{into, WriteMode::max}});
}

void Builder::fill(Lane lane, const Box& into, double value) {
  emit(lane, OpKind::fill, {}, {{into, WriteMode::store}}).value = value;
}

RankPlan Builder::finish() {
  lay_out(plan_, reuse_of(scenario_.schedule));
  return std::move(plan_);
}

}  // namespace cplab
