// Binding: views of a plan to kernels::View, operations to kernel calls. Memory of a slot, by layout:
// rows_first [rows, heads, width], heads_first [heads, rows, width]; with planes the columns [0, planes) and
// [planes, width) are two such tensors, one after the other.
#include "exec/bind.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "plan/structure.hpp"

namespace cplab {

namespace {

std::string shape_text(const kernels::View& view) {
  return std::to_string(view.rows) + " x " + std::to_string(view.heads) + " x " + std::to_string(view.width);
}

kernels::Write kernel_write(WriteMode mode) {
  switch (mode) {
    case WriteMode::store: return kernels::Write::store;
    case WriteMode::add: return kernels::Write::add;
    case WriteMode::merge: return kernels::Write::merge;
  }
  return kernels::Write::store;
}

bool same_rows_and_heads(const kernels::View& a, const kernels::View& b) {
  return a.rows == b.rows && a.heads == b.heads;
}

bool same_shape(const kernels::View& a, const kernels::View& b) {
  return same_rows_and_heads(a, b) && a.width == b.width;
}

}  // namespace

kernels::DType kernel_dtype(Role role, DType nominal) {
  if (role == Role::integer) {
    throw BadPlan(FindingKind::unmatched, -1, "", "", "a buffer of role integer is no operand of a kernel");
  }
  switch (dtype_of(role, nominal)) {
    case DType::fp64: return kernels::DType::fp64;
    case DType::fp32: return kernels::DType::fp32;
    case DType::bf16: return kernels::DType::bf16;
    case DType::fp16: return kernels::DType::fp16;
  }
  return kernels::DType::fp32;
}

namespace {

std::vector<std::byte*> addresses_in(const RankPlan& plan, std::byte* base) {
  std::vector<std::byte*> addresses;
  addresses.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) addresses.push_back(base + buffer.offset);
  return addresses;
}

}  // namespace

Binder::Binder(const RankPlan& plan, DType nominal, std::byte* base)
    : Binder(plan, nominal, addresses_in(plan, base)) {}

Binder::Binder(const RankPlan& plan, DType nominal, std::vector<std::byte*> addresses)
    : plan_(plan), nominal_(nominal), addresses_(std::move(addresses)) {
  runs_.reserve(plan.row_ranges.size());
  for (const RowRange& r : plan.row_ranges) runs_.push_back({r.begin, r.count, r.step});
  segments_.reserve(plan.segments.size());
  for (const Segment& s : plan.segments) {
    segments_.push_back({s.q_begin, s.q_count, s.k_begin, s.k_count, s.offset, s.left, s.right});
  }
}

void Binder::fail(const Operation& operation, const std::string& message) const {
  throw BadPlan(FindingKind::unmatched, plan_.rank, operation_id(plan_, operation), "",
                operation_id(plan_, operation) + " (" + describe(plan_, operation) + "): " + message);
}

void Binder::require(bool holds, const Operation& operation, std::string_view message) const {
  if (!holds) fail(operation, std::string(message));
}

kernels::View Binder::piece(const View& view, std::int64_t slot, std::int64_t begin, std::int64_t end) const {
  const Buffer& buffer = plan_.buffers[view.buffer];
  const bool second_plane = buffer.planes > 0 && begin >= buffer.planes;
  const std::int64_t plane_begin = second_plane ? buffer.planes : 0;
  const std::int64_t plane_end = buffer.planes > 0 && !second_plane ? buffer.planes : buffer.width;
  const std::int64_t plane_width = plane_end - plane_begin;

  kernels::View out;
  out.dtype = kernel_dtype(buffer.role, nominal_);
  out.heads = view.head_end - view.head_begin;
  out.width = end - begin;
  out.row_stride = buffer.layout == Layout::rows_first ? buffer.heads * plane_width : plane_width;
  out.head_stride = buffer.layout == Layout::rows_first ? plane_width : buffer.rows * plane_width;

  std::int64_t element = (slot * buffer.width + plane_begin) * buffer.rows * buffer.heads;
  element += view.head_begin * out.head_stride + (begin - plane_begin);
  const std::span<const RowRange> ranges = plan_.rows_of(view);
  out.rows = row_count(ranges);
  if (ranges.size() == 1) {  // one run needs no row map: it is a pointer and a stride
    element += ranges[0].begin * out.row_stride;
    out.row_stride *= ranges[0].step;
  } else {
    out.runs = std::span<const kernels::RowRun>(runs_).subspan(view.ranges.first, view.ranges.count);
  }
  out.data = addresses_[view.buffer] + element * element_bytes(buffer.role, nominal_);
  return out;
}

std::int32_t Binder::plane_cut(const View& view) const {
  return cplab::plane_cut(plan_.buffers[view.buffer], view);
}

std::vector<kernels::View> Binder::pieces(const Operation& operation, const View& view,
                                          const std::vector<std::int32_t>& cuts) const {
  const std::int32_t width = view.width_end - view.width_begin;
  std::vector<std::int32_t> columns{0, width};
  if (const std::int32_t cut = plane_cut(view); cut > 0) columns.push_back(cut);
  for (const std::int32_t cut : cuts) {
    if (cut > 0 && cut < width) columns.push_back(cut);
  }
  std::sort(columns.begin(), columns.end());
  columns.erase(std::unique(columns.begin(), columns.end()), columns.end());
  require(plan_.buffers[view.buffer].role != Role::integer, operation, "an integer buffer is no operand");

  std::vector<kernels::View> out;
  for (std::int64_t slot = view.slot_begin; slot < view.slot_end; ++slot) {
    for (std::size_t i = 0; i + 1 < columns.size(); ++i) {
      out.push_back(piece(view, slot, view.width_begin + columns[i], view.width_begin + columns[i + 1]));
    }
  }
  return out;
}

kernels::View Binder::operand(const Operation& operation, Operand name_of_it) const {
  const std::string_view role = name(name_of_it);
  const Access* access = plan_.find(operation, name_of_it);
  require(access != nullptr, operation, "has no operand " + std::string(role));
  const View& view = plan_.views[access->view];
  if (view.slot_end - view.slot_begin != 1 || plane_cut(view) != 0) {
    fail(operation,
         std::string(role) + " must lie in one slot and one plane of " + plan_.buffers[view.buffer].name);
  }
  require(plan_.buffers[view.buffer].role != Role::integer, operation, "an integer buffer is no operand");
  return piece(view, view.slot_begin, view.width_begin, view.width_end);
}

std::span<const kernels::Segment> Binder::segments(const Operation& operation, std::int64_t q_rows,
                                                   std::int64_t k_rows) const {
  const auto inside = [](std::int64_t begin, std::int64_t count, std::int64_t rows) {
    return begin >= 0 && count >= 0 && begin <= rows && count <= rows - begin;
  };
  for (const Segment& s : plan_.segments_of(operation)) {
    if (!inside(s.q_begin, s.q_count, q_rows) || !inside(s.k_begin, s.k_count, k_rows)) {
      fail(operation, "a segment reaches beyond the rows of q or k");
    }
  }
  return std::span<const kernels::Segment>(segments_).subspan(operation.segments.first,
                                                              operation.segments.count);
}

void Binder::require_fit(const Operation& op, const kernels::View& q, const kernels::View& k,
                         const kernels::View& v) const {
  require(q.width == k.width && same_rows_and_heads(k, v), op, "q, k and v do not fit");
  require(k.heads > 0 && q.heads % k.heads == 0, op, "query heads are no multiple of kv heads");
}

KernelCall Binder::bind_attend(const Operation& op) const {
  require(op.reads.count == 3 && op.writes.count == 2, op, "attend takes q, k, v => out, lse");
  kernels::Attend call;
  call.q = operand(op, Operand::q);
  call.k = operand(op, Operand::k);
  call.v = operand(op, Operand::v);
  call.out = operand(op, Operand::out);
  call.lse = operand(op, Operand::lse);
  const WriteMode mode = plan_.mode_of(op, Operand::out);
  require(mode != WriteMode::add && mode == plan_.mode_of(op, Operand::lse), op,
          "out and lse are both stored or both merged");
  require_fit(op, call.q, call.k, call.v);
  require(same_rows_and_heads(call.q, call.out) && call.out.width == call.v.width, op, "out does not fit");
  require(same_rows_and_heads(call.q, call.lse) && call.lse.width == 1, op, "lse does not fit");
  call.segments = segments(op, call.q.rows, call.k.rows);
  call.scale = op.value;
  call.write = kernel_write(mode);
  return call;
}

KernelCall Binder::bind_attend_backward(const Operation& op) const {
  require(op.reads.count == 6 && op.writes.count == 3, op,
          "attend_backward takes q, k, v, dout, lse, delta => dq, dk, dv");
  kernels::AttendBackward call;
  call.q = operand(op, Operand::q);
  call.k = operand(op, Operand::k);
  call.v = operand(op, Operand::v);
  call.dout = operand(op, Operand::dout);
  call.lse = operand(op, Operand::lse);
  call.delta = operand(op, Operand::delta);
  call.dq = operand(op, Operand::dq);
  call.dk = operand(op, Operand::dk);
  call.dv = operand(op, Operand::dv);
  const std::array<WriteMode, 3> modes{plan_.mode_of(op, Operand::dq), plan_.mode_of(op, Operand::dk),
                                       plan_.mode_of(op, Operand::dv)};
  require(modes[0] != WriteMode::merge && modes[1] != WriteMode::merge && modes[1] == modes[2], op,
          "dq, dk and dv are stored or added, dk and dv alike");
  require_fit(op, call.q, call.k, call.v);
  require(same_rows_and_heads(call.q, call.dout) && call.dout.width == call.v.width, op, "dout does not fit");
  require(same_rows_and_heads(call.q, call.lse) && call.lse.width == 1, op, "lse does not fit");
  require(same_rows_and_heads(call.q, call.delta) && call.delta.width == 1, op, "delta does not fit");
  require(same_shape(call.q, call.dq) && same_shape(call.k, call.dk) && same_shape(call.v, call.dv), op,
          "a gradient does not have the shape of its tensor");
  call.segments = segments(op, call.q.rows, call.k.rows);
  call.scale = op.value;
  call.write_dq = kernel_write(modes[0]);
  call.write_dk = kernel_write(modes[1]);
  return call;
}

// The three forms of merge are told apart by how many operands they have.
KernelCall Binder::bind_merge(const Operation& op) const {
  const auto mode = [&](Operand written) { return plan_.mode_of(op, written); };
  if (op.reads.count == 2 && op.writes.count == 2) {
    const kernels::Merge call{operand(op, Operand::part_out), operand(op, Operand::part_lse),
                              operand(op, Operand::out), operand(op, Operand::lse)};
    require(mode(Operand::out) == WriteMode::merge && mode(Operand::lse) == WriteMode::merge, op,
            "out and lse are merged into");
    require(same_shape(call.part_out, call.into_out) && same_shape(call.part_lse, call.into_lse) &&
                same_rows_and_heads(call.part_out, call.part_lse) && call.part_lse.width == 1,
            op, "the two partial results do not have one shape");
    return call;
  }
  if (op.reads.count == 1 && op.writes.count == 1) {
    const kernels::MergeLse call{operand(op, Operand::part_lse), operand(op, Operand::lse)};
    require(mode(Operand::lse) == WriteMode::merge, op, "lse is merged into");
    require(same_shape(call.part_lse, call.into_lse) && call.part_lse.width == 1, op, "lse does not fit");
    return call;
  }
  require(
      op.reads.count == 3 && op.writes.count == 1, op,
      "merge takes (part_out, part_lse => out, lse), (part_lse => lse) or (part_out, part_lse, lse => out)");
  const kernels::Rescale call{operand(op, Operand::part_out), operand(op, Operand::part_lse),
                              operand(op, Operand::lse), operand(op, Operand::out),
                              kernel_write(mode(Operand::out))};
  require(mode(Operand::out) != WriteMode::merge, op, "out is stored or added to");
  require(same_shape(call.part_out, call.into_out) && same_rows_and_heads(call.part_out, call.part_lse) &&
              same_shape(call.part_lse, call.final_lse) && call.part_lse.width == 1,
          op, "the partial result and out do not have one shape");
  return call;
}

// copy, cast and add: whole boxes, over any number of slots and both planes.
void Binder::bind_pairs(const Operation& op, std::vector<KernelCall>& calls) const {
  require(op.reads.count == 1 && op.writes.count == 1, op, "takes one view and writes one");
  const Access& from = *plan_.find(op, Operand::from);
  const Access& into = *plan_.find(op, Operand::into);
  const bool adds = op.kind == OpKind::add;
  require(into.mode == (adds ? WriteMode::add : WriteMode::store), op, "wrong write mode");
  const View& a = plan_.views[from.view];
  const View& b = plan_.views[into.view];
  const std::vector<kernels::View> sources = pieces(op, a, {plane_cut(b)});
  const std::vector<kernels::View> targets = pieces(op, b, {plane_cut(a)});
  bool fits = sources.size() == targets.size();
  for (std::size_t i = 0; fits && i < sources.size(); ++i) fits = same_shape(sources[i], targets[i]);
  require(fits, op, "the two boxes do not have one shape");
  for (std::size_t i = 0; i < sources.size(); ++i) {
    require(op.kind != OpKind::copy || sources[i].dtype == targets[i].dtype, op, "a copy keeps the dtype");
    if (adds) {
      calls.emplace_back(AddCall{sources[i], targets[i]});
    } else {
      calls.emplace_back(CopyCall{sources[i], targets[i]});
    }
  }
}

std::vector<KernelCall> Binder::bind(const Operation& op) const {
  std::vector<KernelCall> calls;
  switch (op.kind) {
    case OpKind::attend: calls.push_back(bind_attend(op)); break;
    case OpKind::attend_backward: calls.push_back(bind_attend_backward(op)); break;
    case OpKind::merge: calls.push_back(bind_merge(op)); break;
    case OpKind::row_dot: {
      require(op.reads.count == 2 && op.writes.count == 1, op, "row_dot takes dout, out => delta");
      require(plan_.mode_of(op, Operand::delta) == WriteMode::store, op, "delta is stored");
      const RowDotCall call{operand(op, Operand::dout), operand(op, Operand::out),
                            operand(op, Operand::delta)};
      require(same_shape(call.a, call.b) && same_rows_and_heads(call.a, call.into) && call.into.width == 1,
              op, "dout, out and delta do not fit");
      calls.emplace_back(call);
      break;
    }
    case OpKind::copy:
    case OpKind::cast:
    case OpKind::add: bind_pairs(op, calls); break;
    case OpKind::fill: {
      require(op.reads.count == 0 && op.writes.count == 1, op, "fill writes one view");
      const Access& into = *plan_.find(op, Operand::into);
      require(into.mode == WriteMode::store, op, "fill stores");
      for (const kernels::View& view : pieces(op, plan_.views[into.view])) {
        calls.emplace_back(FillCall{view, op.value});
      }
      break;
    }
    case OpKind::exchange:
    case OpKind::all_gather:
    case OpKind::reduce_scatter:
    case OpKind::all_to_all:
    case OpKind::all_reduce:
    case OpKind::barrier:
    case OpKind::host_sync: fail(op, "is no kernel call");
  }
  return calls;
}

std::vector<MemoryUse> Binder::uses(const Operation& op) const {
  const auto index = static_cast<std::uint32_t>(&op - plan_.operations.data());
  std::vector<MemoryUse> out;
  const auto use = [&](const View& view, bool written) {
    const Buffer& buffer = plan_.buffers[view.buffer];
    const std::int64_t size = element_bytes(buffer.role, nominal_);
    MemoryUse entry{index, view.buffer, 0, 0, op.lane, written};
    std::int64_t first_row = buffer.rows, last_row = -1;
    for (const RowRange& r : plan_.rows_of(view)) {
      if (r.count == 0) continue;
      first_row = std::min(first_row, r.begin);
      last_row = std::max(last_row, r.begin + (r.count - 1) * r.step);
    }
    const bool empty = last_row < 0 || view.slot_begin == view.slot_end || view.head_begin == view.head_end ||
                       view.width_begin == view.width_end;
    entry.offset = buffer.offset;
    if (!empty) {
      // The first and the last element of the box in memory: element strides of the plane they lie in.
      const auto element = [&](std::int64_t slot, std::int64_t row, std::int64_t head, std::int64_t column) {
        const bool second = buffer.planes > 0 && column >= buffer.planes;
        const std::int64_t begin = second ? buffer.planes : 0;
        const std::int64_t width = (buffer.planes > 0 && !second ? buffer.planes : buffer.width) - begin;
        const std::int64_t line =
            buffer.layout == Layout::rows_first ? row * buffer.heads + head : head * buffer.rows + row;
        return (slot * buffer.width + begin) * buffer.rows * buffer.heads + line * width + (column - begin);
      };
      const std::int64_t first = element(view.slot_begin, first_row, view.head_begin, view.width_begin);
      const std::int64_t last = element(view.slot_end - 1, last_row, view.head_end - 1, view.width_end - 1);
      entry.offset += first * size;
      entry.bytes = (last - first + 1) * size;
    }
    out.push_back(entry);
  };
  for (const Access& access : plan_.reads(op)) use(plan_.views[access.view], false);
  for (const Access& access : plan_.writes(op)) use(plan_.views[access.view], true);
  for (const Part& part : plan_.parts_of(op)) use(plan_.views[part.view], !part.send);
  return out;
}

std::vector<std::pair<kernels::View, kernels::View>> matching_pieces(
    const Binder& from_binder, const Operation& from_operation, const View& from, const Binder& into_binder,
    const Operation& into_operation, const View& into) {
  const std::vector<kernels::View> sources =
      from_binder.pieces(from_operation, from, {into_binder.plane_cut(into)});
  const std::vector<kernels::View> targets =
      into_binder.pieces(into_operation, into, {from_binder.plane_cut(from)});
  bool fits = sources.size() == targets.size();
  for (std::size_t i = 0; fits && i < sources.size(); ++i) {
    fits = same_shape(sources[i], targets[i]) && sources[i].dtype == targets[i].dtype;
  }
  if (!fits) {
    const RankPlan& plan = into_binder.plan();
    const std::string sent = sources.empty() ? "nothing" : shape_text(sources.front());
    const std::string received = targets.empty() ? "nothing" : shape_text(targets.front());
    throw BadPlan(
        FindingKind::unmatched, plan.rank, operation_id(plan, into_operation), plan.buffers[into.buffer].name,
        operation_id(from_binder.plan(), from_operation) + " sends " + std::to_string(sources.size()) +
            " tensors (the first is " + sent + ") and " + operation_id(plan, into_operation) + " receives " +
            std::to_string(targets.size()) + " (the first is " + received + "): shape or dtype differ");
  }
  std::vector<std::pair<kernels::View, kernels::View>> out;
  out.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) out.emplace_back(sources[i], targets[i]);
  return out;
}

void launch(const kernels::Tiles& tiles, const KernelCall& call) {
  struct Visitor {
    const kernels::Tiles& t;
    void operator()(const kernels::Attend& c) const { t.attend(c); }
    void operator()(const kernels::AttendBackward& c) const { t.attend_backward(c); }
    void operator()(const RowDotCall& c) const { t.row_dot(c.a, c.b, c.into); }
    void operator()(const kernels::Merge& c) const { t.merge(c); }
    void operator()(const kernels::MergeLse& c) const { t.merge_lse(c); }
    void operator()(const kernels::Rescale& c) const { t.rescale(c); }
    void operator()(const CopyCall& c) const { t.copy(c.from, c.into); }
    void operator()(const AddCall& c) const { t.add(c.from, c.into); }
    void operator()(const FillCall& c) const { t.fill(c.into, c.value); }
  };
  std::visit(Visitor{tiles}, call);
}

}  // namespace cplab
