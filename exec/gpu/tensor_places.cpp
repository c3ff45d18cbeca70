// Tensors and scratch memory of a phase; see tensor_places.hpp.
#include "exec/gpu/tensor_places.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "derive/arena.hpp"
#include "plan/operands.hpp"

namespace cplab {

namespace {

bool is_callers(const Buffer& buffer) {
  return buffer.category == Category::input || buffer.category == Category::output ||
         buffer.category == Category::saved;
}

}  // namespace

void part_inputs(Plan& plan) {
  for (RankPlan& rank : plan.ranks)
    for (Buffer& buffer : rank.buffers)
      buffer.apart =
          buffer.category == Category::input && buffer.planes > 0 && buffer.slots == 1 && buffer.name == "kv";
}

bool needs_nccl(const Plan& plan) {
  bool nccl = false;
  for (const RankPlan& rank : plan.ranks) {
    for (const Operation& op : rank.operations) {
      if (!is_communication(op.kind)) continue;
      nccl = nccl || op.transport == Transport::nccl;
      if (op.transport == Transport::nccl || plan.ranks.size() == 1) continue;
      throw std::invalid_argument(operation_id(rank, op) +
                                  " goes over copy; between ranks of a framework messages go over nccl: "
                                  "schedule.transport=\"nccl\"");
    }
  }
  return nccl;
}

PhaseMemory::PhaseMemory(const RankPlan& plan, DType nominal)
    : plan_(plan), uses_(plan.buffers.size()), scratch_(plan.buffers.size(), -1) {
  find_uses();
  for (std::uint32_t b = 0; b < plan.buffers.size(); ++b)
    if (uses_[b].any() && is_callers(plan.buffers[b])) add_tensors(b, nominal);
  place_scratch();
}

void PhaseMemory::find_uses() {
  for (const Operation& op : plan_.operations) {
    for (const Access& access : plan_.reads(op)) uses_[plan_.views[access.view].buffer].read = true;
    for (const Access& access : plan_.writes(op)) uses_[plan_.views[access.view].buffer].written = true;
    for (const Part& part : plan_.parts_of(op)) {
      Use& use = uses_[plan_.views[part.view].buffer];
      use.sent = true;
      (part.send ? use.read : use.written) = true;
    }
    if (op.kind != OpKind::all_reduce) continue;
    for (const Access& access : plan_.reads(op)) uses_[plan_.views[access.view].buffer].sent = true;
  }
}

void PhaseMemory::add_tensors(std::uint32_t b, DType nominal) {
  const Buffer& buffer = plan_.buffers[b];
  PhaseTensor tensor;
  tensor.buffer = buffer.name;
  tensor.category = buffer.category;
  tensor.written = uses_[b].written;
  tensor.dtype = dtype_of(buffer.role, nominal);
  tensor.layout = buffer.layout;
  tensor.slots = buffer.slots;
  tensor.rows = buffer.rows;
  tensor.heads = buffer.heads;
  tensor.width = buffer.width;
  tensor.bytes = buffer.bytes;
  tensor.any_strides = buffer.category == Category::input && buffer.slots == 1 && buffer.planes == 0 &&
                       buffer.layout == Layout::rows_first && !uses_[b].sent;
  if (!buffer.apart) {
    tensors_.push_back(std::move(tensor));
    buffers_.push_back(b);
    return;
  }
  for (const int plane : {0, 1}) {
    tensor.plane = plane;
    tensor.width = plane == 0 ? buffer.planes : buffer.width - buffer.planes;
    tensor.bytes = buffer.bytes / buffer.width * tensor.width;
    tensors_.push_back(tensor);
    buffers_.push_back(b);
  }
}

// The arena without the bytes that only the caller's tensors have: what shares bytes there shares them here,
// so that the plan's edges order it as before.
void PhaseMemory::place_scratch() {
  std::vector<std::uint32_t> inner;
  for (std::uint32_t b = 0; b < plan_.buffers.size(); ++b)
    if (uses_[b].any() && !is_callers(plan_.buffers[b])) inner.push_back(b);
  std::sort(inner.begin(), inner.end(), [&](std::uint32_t a, std::uint32_t b) {
    return plan_.buffers[a].offset < plan_.buffers[b].offset;
  });
  std::int64_t end = 0, shift = 0;  // of the arena: how far it is taken, and what was left out before
  for (const std::uint32_t b : inner) {
    const Buffer& buffer = plan_.buffers[b];
    shift += std::max<std::int64_t>(0, buffer.offset - end);
    scratch_[b] = buffer.offset - shift;
    const std::int64_t bytes = (buffer.bytes + arena_alignment - 1) / arena_alignment * arena_alignment;
    end = std::max(end, buffer.offset + bytes);
  }
  scratch_bytes_ = end - shift;
}

std::vector<BufferMemory> PhaseMemory::places(std::span<const TensorPlace> places, std::byte* scratch) const {
  std::vector<BufferMemory> memory(plan_.buffers.size());
  for (std::size_t b = 0; b < memory.size(); ++b)
    if (scratch_[b] >= 0) memory[b].data = scratch + scratch_[b];
  for (std::size_t t = 0; t < places.size(); ++t) {
    BufferMemory& of = memory[buffers_[t]];
    (tensors_[t].plane == 1 ? of.second_plane : of.data) = places[t].data;
    of.strides = {places[t].row_stride, places[t].head_stride};
  }
  return memory;
}

}  // namespace cplab
