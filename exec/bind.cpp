// Binding: addresses for the calls of a plan; see bind.hpp.
#include "exec/bind.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "plan/layout.hpp"
#include "plan/structure.hpp"

namespace cplab {

namespace {

// Slots, rows, heads, width.
std::array<std::int64_t, 4> shape_of(const MessageEnd& end) {
  const View& v = end.view;
  return {v.slot_end - v.slot_begin, row_count(end.plan.rows_of(v)), v.head_end - v.head_begin,
          v.width_end - v.width_begin};
}

std::vector<BufferMemory> memory_in(const RankPlan& plan, std::byte* base) {
  std::vector<BufferMemory> memory;
  memory.reserve(plan.buffers.size());
  for (const Buffer& buffer : plan.buffers) memory.push_back({base + buffer.offset, nullptr, {}});
  return memory;
}

std::vector<BufferStrides> strides_of(const std::vector<BufferMemory>& memory) {
  const auto strided = [](const BufferMemory& each) { return each.strides.row > 0; };
  if (std::none_of(memory.begin(), memory.end(), strided)) return {};
  std::vector<BufferStrides> strides;
  strides.reserve(memory.size());
  for (const BufferMemory& each : memory) strides.push_back(each.strides);
  return strides;
}

}  // namespace

kernels::DType kernel_dtype(Role role, DType nominal) {
  if (role == Role::integer) {
    throw BadPlan(FindingKind::unmatched, -1, "", "", "a buffer of role integer is no operand of a kernel");
  }
  return kernel_dtype(dtype_of(role, nominal));
}

Binder::Binder(const RankPlan& plan, DType nominal, std::byte* base, ProblemNumbers numbers)
    : Binder(plan, nominal, memory_in(plan, base), std::move(numbers)) {}

Binder::Binder(const RankPlan& plan, DType nominal, std::vector<BufferMemory> memory, ProblemNumbers numbers)
    : converter_(plan, nominal, std::move(numbers), strides_of(memory)),
      nominal_(nominal),
      memory_(std::move(memory)) {}

std::byte* Binder::address(const Place& place) const {
  const BufferMemory& memory = memory_[place.buffer];
  if (memory.second_plane == nullptr) return memory.data + place.byte;
  const Buffer& buffer = plan().buffers[place.buffer];
  const std::int64_t first =
      buffer.rows * buffer.heads * buffer.planes * element_bytes(buffer.role, nominal_);
  return place.byte < first ? memory.data + place.byte : memory.second_plane + (place.byte - first);
}

std::vector<KernelCall> Binder::bind(const Operation& operation) const {
  std::vector<KernelCall> calls;
  for (PlacedCall& placed : converter_.calls(operation)) {
    const std::vector<kernels::View*> views = views_of(placed.call);
    for (std::size_t i = 0; i < views.size(); ++i) views[i]->data = address(placed.places[i]);
    calls.push_back(std::move(placed.call));
  }
  return calls;
}

std::vector<kernels::View> Binder::pieces(const View& view, std::initializer_list<std::int32_t> cuts) const {
  std::vector<kernels::View> views;
  for (const PlacedView& piece : converter_.pieces(view, cuts)) {
    views.push_back(piece.view);
    views.back().data = address(piece.place);
  }
  return views;
}

std::vector<MemoryUse> Binder::uses(const Operation& op) const {
  const auto index = static_cast<std::uint32_t>(&op - plan().operations.data());
  std::vector<MemoryUse> out;
  const auto use = [&](const View& view, bool written) {
    if (is_empty(plan(), view)) return;
    const Buffer& buffer = plan().buffers[view.buffer];
    const std::int64_t size = element_bytes(buffer.role, nominal_);
    MemoryUse entry{index, view.buffer, 0, 0, op.lane, written};
    std::int64_t first_row = buffer.rows, last_row = -1;
    for (const RowRange& r : plan().rows_of(view)) {
      if (r.count == 0) continue;
      first_row = std::min(first_row, r.begin);
      last_row = std::max(last_row, r.begin + (r.count - 1) * r.step);
    }
    const std::int64_t first =
        element_of(buffer, view.slot_begin, first_row, view.head_begin, view.width_begin);
    const std::int64_t last =
        element_of(buffer, view.slot_end - 1, last_row, view.head_end - 1, view.width_end - 1);
    entry.offset = buffer.offset + first * size;
    entry.bytes = (last - first + 1) * size;
    out.push_back(entry);
  };
  for (const Access& access : plan().reads(op)) use(plan().views[access.view], false);
  for (const Access& access : plan().writes(op)) use(plan().views[access.view], true);
  for (const Part& part : plan().parts_of(op)) use(plan().views[part.view], !part.send);
  return out;
}

void require_fitting(const MessageEnd& from, const MessageEnd& into) {
  const auto buffer = [](const MessageEnd& end) -> const Buffer& {
    return end.plan.buffers[end.view.buffer];
  };
  const std::array<std::int64_t, 4> sent = shape_of(from), received = shape_of(into);
  const bool fits = sent == received && buffer(from).role == buffer(into).role &&
                    plane_cut(buffer(from), from.view) == plane_cut(buffer(into), into.view) &&
                    nest_alike(buffer(from), buffer(into), sent[1], sent[2]);
  if (fits) return;
  const auto text = [&](const MessageEnd& end, const std::array<std::int64_t, 4>& shape) {
    std::string out;
    for (const std::int64_t extent : shape) out += (out.empty() ? "" : " x ") + std::to_string(extent);
    return out + " of " + std::string(name(buffer(end).role)) + ", " + std::string(name(buffer(end).layout));
  };
  throw BadPlan(FindingKind::unmatched, into.plan.rank, operation_id(into.plan, into.operation),
                buffer(into).name,
                operation_id(from.plan, from.operation) + " sends " + text(from, sent) + " and " +
                    operation_id(into.plan, into.operation) + " receives " + text(into, received) +
                    ": shape, dtype, layout or planes differ");
}

std::vector<std::pair<kernels::View, kernels::View>> matching_pieces(
    const Binder& from_binder, const Operation& from_operation, const View& from, const Binder& into_binder,
    const Operation& into_operation, const View& into) {
  require_fitting({from_binder.plan(), from_operation, from}, {into_binder.plan(), into_operation, into});
  const std::vector<kernels::View> sources = from_binder.pieces(from), targets = into_binder.pieces(into);
  std::vector<std::pair<kernels::View, kernels::View>> out;
  out.reserve(sources.size());
  for (std::size_t i = 0; i < sources.size(); ++i) out.emplace_back(sources[i], targets[i]);
  return out;
}

}  // namespace cplab
