// Views of a plan to kernels::View, operations to kernel calls; see converter.hpp.
#include "calls/converter.hpp"

#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <string>
#include <utility>

#include "plan/layout.hpp"
#include "plan/operands.hpp"
#include "plan/structure.hpp"

namespace cplab {

namespace {

kernels::Write kernel_write(WriteMode mode) {
  switch (mode) {
    case WriteMode::store: return kernels::Write::store;
    case WriteMode::add: return kernels::Write::add;
    case WriteMode::merge: return kernels::Write::merge;
    case WriteMode::max: break;  // what is written so is always written so: calls do not say it
  }
  return kernels::Write::store;
}

}  // namespace

kernels::DType kernel_dtype(DType dtype) {
  switch (dtype) {
    case DType::fp64: return kernels::DType::fp64;
    case DType::fp32: return kernels::DType::fp32;
    case DType::bf16: return kernels::DType::bf16;
    case DType::fp16: return kernels::DType::fp16;
  }
  return kernels::DType::fp32;
}

namespace {

std::uint64_t next_id() {
  static std::atomic<std::uint64_t> next{0};
  return next++;
}

}  // namespace

ProblemNumbers::ProblemNumbers(const Problem& p) : slopes(p.slopes) {
  if (p.bias != BiasForm::buckets) return;
  bucket_starts = cplab::bucket_starts(p);
  both_ways = p.band().right != 0;
}

CallConverter::CallConverter(const RankPlan& plan, DType nominal, ProblemNumbers numbers,
                             std::vector<BufferStrides> strides)
    : plan_(plan),
      id_(next_id()),
      nominal_(nominal),
      numbers_(std::move(numbers)),
      strides_(std::move(strides)) {
  runs_.reserve(plan.row_ranges.size());
  for (const RowRange& r : plan.row_ranges) runs_.push_back({r.begin, r.count, r.step});
  segments_.reserve(plan.segments.size());
  for (const Segment& s : plan.segments) {
    segments_.push_back({s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
  }
  chunks_.reserve(plan.chunks.size());
  for (const Chunk& c : plan.chunks) {
    chunks_.push_back(
        {c.row, c.count, c.state, c.left, c.right, c.left_exponent, c.right_exponent, c.resets});
  }
}

// The columns [begin, end) of the buffer, which lie in one plane.
PlacedView CallConverter::piece(const View& view, std::int64_t slot, std::int64_t begin,
                                std::int64_t end) const {
  const Buffer& buffer = plan_.buffers[view.buffer];
  if (buffer.role == Role::integer) throw std::invalid_argument("an integer buffer is no operand");
  const std::int64_t plane_width = plane_of(buffer, begin).width;
  const std::span<const RowRange> ranges = plan_.rows_of(view);
  kernels::View out;
  out.dtype = kernel_dtype(dtype_of(buffer.role, nominal_));
  out.rows = row_count(ranges);
  out.heads = view.head_end - view.head_begin;
  out.width = end - begin;
  out.row_stride = buffer.layout == Layout::rows_first ? buffer.heads * plane_width : plane_width;
  out.head_stride = buffer.layout == Layout::rows_first ? plane_width : buffer.rows * plane_width;
  std::int64_t first_row = 0;
  if (ranges.size() == 1) first_row = ranges[0].begin;
  std::int64_t element = element_of(buffer, slot, first_row, view.head_begin, begin);
  if (!strides_.empty() && strides_[view.buffer].row > 0) {
    out.row_stride = strides_[view.buffer].row;
    out.head_stride = strides_[view.buffer].head;
    element = first_row * out.row_stride + view.head_begin * out.head_stride + begin;
  }
  if (ranges.size() == 1) {  // one range needs no row map: it is a first row and a stride
    out.row_stride *= ranges[0].step;
  } else {
    out.runs = std::span<const kernels::RowRun>(runs_).subspan(view.ranges.first, view.ranges.count);
  }
  return {out, {view.buffer, element * element_bytes(buffer.role, nominal_)}};
}

std::vector<PlacedView> CallConverter::pieces(const View& view,
                                              std::initializer_list<std::int32_t> cuts) const {
  const std::int32_t width = view.width_end - view.width_begin;
  std::vector<std::int32_t> columns(cuts);
  columns.push_back(plane_cut(plan_.buffers[view.buffer], view));
  std::erase_if(columns, [&](std::int32_t cut) { return cut <= 0 || cut >= width; });
  columns.insert(columns.end(), {0, width});
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());

  std::vector<PlacedView> out;
  for (std::int64_t slot = view.slot_begin; slot < view.slot_end; ++slot) {
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
      out.push_back(piece(view, slot, view.width_begin + columns[i], view.width_begin + columns[i + 1]));
    }
  }
  return out;
}

const View& CallConverter::view_of(const Operation& op, Operand operand) const {
  const Access* access = plan_.find(op, operand);
  if (access == nullptr) throw std::invalid_argument("there is no operand " + std::string(name(operand)));
  return plan_.views[access->view];
}

// The call with its views filled in: `operands` in the order of views_of(call), each of one slot and plane.
PlacedCall CallConverter::place(const Operation& op, KernelCall call,
                                std::span<const Operand> operands) const {
  PlacedCall out{std::move(call), {}};
  const std::vector<kernels::View*> views = views_of(out.call);
  out.places.reserve(operands.size());
  for (const Operand operand : operands) {
    const View& view = view_of(op, operand);
    const PlacedView placed = piece(view, view.slot_begin, view.width_begin, view.width_end);
    *views[out.places.size()] = placed.view;
    out.places.push_back(placed.place);
  }
  return out;
}

kernels::Write CallConverter::write_of(const Operation& op, Operand operand) const {
  return kernel_write(plan_.mode_of(op, operand));
}

std::span<const kernels::Segment> CallConverter::segments(const Operation& op) const {
  return std::span<const kernels::Segment>(segments_).subspan(op.segments.first, op.segments.count);
}

PlacedCall CallConverter::attend(const Operation& op) const {
  using enum Operand;
  kernels::Attend call;
  call.segments = segments(op);
  call.scale = op.value;
  std::vector<Operand> operands{q, k, v, out, lse};
  if (plan_.find(op, max_logit) != nullptr) {
    call.max_logit.emplace();
    operands.push_back(max_logit);
  }
  if (plan_.find(op, sink) != nullptr) {
    call.sink.emplace();
    operands.push_back(sink);
  }
  PlacedCall placed = place(op, call, operands);
  std::get<kernels::Attend>(placed.call).write = write_of(op, out);
  return placed;
}

PlacedCall CallConverter::attend_backward(const Operation& op) const {
  using enum Operand;
  kernels::AttendBackward call;
  call.segments = segments(op);
  call.scale = op.value;
  std::vector<Operand> operands{q, k, v, dout, lse, delta, dq, dk, dv};
  const auto add_if_there = [&](Operand operand, std::optional<kernels::View>& view) {
    if (plan_.find(op, operand) == nullptr) return;
    view.emplace();
    operands.push_back(operand);
  };
  add_if_there(rounded_dq, call.rounded_dq);
  add_if_there(rounded_dk, call.rounded_dk);
  add_if_there(rounded_dv, call.rounded_dv);
  add_if_there(out, call.out);
  PlacedCall placed = place(op, call, operands);
  auto& backward = std::get<kernels::AttendBackward>(placed.call);
  backward.write_dq = write_of(op, dq);
  backward.write_dk = write_of(op, dk);
  return placed;
}

// Says which of bias and keep are there, for place() to fill in, behind the other operands.
void CallConverter::add_pair_mask(const Operation& op, kernels::PairMask& mask,
                                  std::vector<Operand>& operands) const {
  mask.softcap = op.softcap;
  mask.columns = std::span<const kernels::RowRun>(runs_).subspan(op.columns.first, op.columns.count);
  if (plan_.find(op, Operand::bias) != nullptr) mask.bias.emplace(), operands.push_back(Operand::bias);
  if (plan_.find(op, Operand::keep) != nullptr) mask.keep.emplace(), operands.push_back(Operand::keep);
  if (op.bias == BiasForm::alibi) mask.slopes = slopes(op);
  if (op.bias != BiasForm::buckets) return;
  mask.table.emplace(), operands.push_back(Operand::bias_table);
  mask.starts = numbers_.bucket_starts;
  mask.both_ways = numbers_.both_ways;
}

std::span<const double> CallConverter::slopes(const Operation& op) const {
  const auto first = static_cast<std::size_t>(op.head_begin), last = static_cast<std::size_t>(op.head_end);
  if (last > numbers_.slopes.size()) return {};
  return std::span<const double>(numbers_.slopes).subspan(first, last - first);
}

PlacedCall CallConverter::masked_attend(const Operation& op) const {
  using enum Operand;
  kernels::MaskedAttend call;
  call.tile.segments = segments(op);
  call.tile.scale = op.value;
  call.tile.write = write_of(op, out);
  std::vector<Operand> operands{q, k, v, out, lse};
  if (plan_.find(op, sink) != nullptr) {
    call.tile.sink.emplace();
    operands.push_back(sink);
  }
  add_pair_mask(op, call.mask, operands);
  return place(op, call, operands);
}

PlacedCall CallConverter::masked_attend_backward(const Operation& op) const {
  using enum Operand;
  kernels::MaskedAttendBackward call;
  call.tile.segments = segments(op);
  call.tile.scale = op.value;
  call.tile.write_dq = write_of(op, dq);
  call.tile.write_dk = write_of(op, dk);
  std::vector<Operand> operands{q, k, v, dout, lse, delta, dq, dk, dv};
  add_pair_mask(op, call.mask, operands);
  if (plan_.find(op, dbias) != nullptr) {
    call.dbias.emplace();
    call.write_dbias = write_of(op, dbias);
    operands.push_back(dbias);
  }
  if (plan_.find(op, dbias_table) != nullptr) {
    call.dtable.emplace();
    operands.push_back(dbias_table);
  }
  return place(op, call, operands);
}

// The three forms of merge (plan.hpp), told apart by what they take and write.
PlacedCall CallConverter::merge(const Operation& op) const {
  using enum Operand;
  if (plan_.find(op, part_out) == nullptr) return place(op, kernels::MergeLse{}, {part_lse, lse});
  if (op.writes.count == 2) return place(op, kernels::Merge{}, {part_out, part_lse, out, lse});
  PlacedCall placed = place(op, kernels::Rescale{}, {part_out, part_lse, lse, out});
  std::get<kernels::Rescale>(placed.call).write = write_of(op, out);
  return placed;
}

PlacedCall CallConverter::projection(const Operation& op) const {
  using enum Operand;
  if (op.kind == OpKind::project)
    return place(op, kernels::Project{}, {latent, rope_key, key_weights, value_weights, k, v});
  if (op.kind == OpKind::project_backward) {
    kernels::ProjectBackward call;
    call.write = write_of(op, dlatent);
    return place(op, call, {dk, dv, key_weights, value_weights, dlatent, drope_key});
  }
  kernels::WeightGradient call;
  call.write = write_of(op, dkey_weights);
  return place(op, call, {latent, dk, dv, dkey_weights, dvalue_weights});
}

// copy, cast, add, maximum and fill: whole boxes, over any number of slots and both planes.
std::vector<PlacedCall> CallConverter::element_by_element(const Operation& op) const {
  const View& into = view_of(op, Operand::into);
  std::vector<PlacedCall> out;
  using Kind = kernels::Rowwise::Kind;
  if (op.kind == OpKind::fill) {
    for (const PlacedView& target : pieces(into))
      out.push_back({kernels::Rowwise{Kind::fill, {}, {}, target.view, op.value}, {target.place}});
    return out;
  }
  const View& from = view_of(op, Operand::from);
  const std::vector<PlacedView> sources = pieces(from, {plane_cut(plan_.buffers[into.buffer], into)});
  const std::vector<PlacedView> targets = pieces(into, {plane_cut(plan_.buffers[from.buffer], from)});
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Kind kind = op.kind == OpKind::add       ? Kind::add
                      : op.kind == OpKind::maximum ? Kind::maximum
                                                   : Kind::copy;
    out.push_back({kernels::Rowwise{kind, sources[i].view, {}, targets[i].view, 0},
                   {sources[i].place, targets[i].place}});
  }
  return out;
}

std::vector<PlacedCall> CallConverter::calls(const Operation& op) const {
  using enum Operand;
  switch (op.kind) {
    case OpKind::attend: return {changes_logits(plan_, op) ? masked_attend(op) : attend(op)};
    case OpKind::attend_backward:
      return {changes_logits(plan_, op) ? masked_attend_backward(op) : attend_backward(op)};
    case OpKind::row_dot:
      return {
          place(op, kernels::Rowwise{kernels::Rowwise::Kind::row_dot, {}, {}, {}, 0}, {dout, out, delta})};
    case OpKind::sink_gradient: return {place(op, kernels::SinkGradient{}, {sink, lse, delta, dsink})};
    case OpKind::project:
    case OpKind::project_backward:
    case OpKind::weight_gradient: return {projection(op)};
    case OpKind::merge: return {merge(op)};
    case OpKind::copy:
    case OpKind::cast:
    case OpKind::add:
    case OpKind::maximum:
    case OpKind::fill: return element_by_element(op);
    case OpKind::local:
    case OpKind::local_backward:
    case OpKind::state:
    case OpKind::scan:
    case OpKind::combine:
    case OpKind::inter:
    case OpKind::convolve:
    case OpKind::filter_gradient: return {linear(op)};
    case OpKind::exchange:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::all_reduce:
    case OpKind::barrier:
    case OpKind::host_sync: return {};
  }
  return {};
}

}  // namespace cplab
