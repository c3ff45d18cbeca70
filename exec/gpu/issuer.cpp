// Queues a plan on streams; see issuer.hpp.
#include "exec/gpu/issuer.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

namespace cplab {

GpuIssuer::GpuIssuer(GpuRank& rank, GpuMessages& messages, NcclLink* link)
    : rank_(rank), messages_(messages), link_(link) {}

void GpuIssuer::begin(const Iteration& iteration) {
  iteration_ = iteration;
  const std::size_t count = rank_.plan().operations.size();
  heads_.assign(rank_.lanes().size(), 0);
  stages_.assign(count, Stage::waiting);
  sent_.assign(count, 0);
  issue_s_.assign(count, 0);
  touched_.assign(rank_.plan().buffers.size(), false);
  left_ = count;
  holds_backward_ = iteration.holds_backward;
  host_syncs_ = static_cast<std::uint32_t>(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    if (rank_.plan().operations[i].kind != OpKind::host_sync) continue;
    host_syncs_ = i;
    break;
  }
  if (iteration.log == nullptr) return;
  for (std::uint32_t b = 0; b < touched_.size(); ++b) {
    const Buffer& buffer = rank_.plan().buffers[b];
    if (buffer.category != Category::input) continue;
    touched_[b] = true;
    iteration.log->blocks.push_back({b, buffer.offset, buffer.bytes});
  }
}

bool GpuIssuer::advance() {
  bool progress = false;
  std::vector<bool> stuck(heads_.size());
  while (left_ > 0) {
    // Of the lanes that are not stuck, the operation that comes first in the program.
    std::uint32_t next = std::numeric_limits<std::uint32_t>::max();
    for (std::size_t l = 0; l < heads_.size(); ++l) {
      const GpuLane& lane = rank_.lanes()[l];
      if (!stuck[l] && heads_[l] < lane.operations.size()) next = std::min(next, lane.operations[heads_[l]]);
    }
    if (next == std::numeric_limits<std::uint32_t>::max()) return progress;
    const std::uint32_t lane = rank_.operation(next).lane;
    const bool held = holds_backward_ && rank_.plan().operations[next].phase == Phase::backward;
    if (held || next > host_syncs_ || !step(next)) {
      stuck[lane] = true;
      continue;
    }
    progress = true;
    ++heads_[lane];
    --left_;
    std::fill(stuck.begin(), stuck.end(), false);  // another lane may have waited for it
  }
  return progress;
}

bool GpuIssuer::step(std::uint32_t i) {
  if (stages_[i] == Stage::waiting && !begin_operation(i)) return false;
  if (stages_[i] == Stage::posted && !send(i)) return false;
  if (stages_[i] == Stage::sent && !receive(i)) return false;
  return true;
}

bool GpuIssuer::begin_operation(std::uint32_t i) {
  const RankPlan& plan = rank_.plan();
  const Operation& op = plan.operations[i];
  for (const std::uint32_t edge : plan.after(op)) {
    if (stages_[edge] != Stage::issued) return false;
  }
  // What is waited for to start is queued first.
  for (const std::uint32_t edge : plan.after_started(op)) {
    if (stages_[edge] == Stage::waiting) return false;
  }
  GpuOperation& prepared = rank_.operation(i);
  // A part without a counterpart: the operation can never complete, so it is not issued at all, on any link.
  // NCCL might buffer a message that nobody receives, but no plan may rely on that.
  if (is_communication(op.kind) && prepared.sends.size() + prepared.receives.size() != op.parts.count) {
    return false;
  }
  if (op.kind == OpKind::host_sync) {
    if (issue_s_[i] == 0) {  // once
      for (const std::uint32_t edge : plan.after(op)) {
        rank_.wait(rank_.operation(edge).done, prepared.lane);
      }
      rank_.record(prepared.done, prepared.lane);
      issue_s_[i] = std::chrono::duration<double>(Clock::now() - iteration_.start).count();
    }
    if (!rank_.reached(prepared.done)) return false;
    if (iteration_.instrumented) rank_.record(prepared.begin, prepared.lane);
    finish(i);
    host_syncs_ = static_cast<std::uint32_t>(plan.operations.size());
    for (std::uint32_t j = i + 1; j < plan.operations.size(); ++j) {
      if (plan.operations[j].kind != OpKind::host_sync) continue;
      host_syncs_ = j;
      break;
    }
    return true;
  }
  for (const std::uint32_t edge : plan.after(op)) rank_.wait(rank_.operation(edge).done, prepared.lane);
  for (const std::uint32_t edge : plan.after_started(op)) {
    rank_.wait(rank_.operation(edge).started, prepared.lane);
  }
  log_uses(i);
  rank_.queue_before(i, iteration_.jitter);
  if (iteration_.instrumented) rank_.record(prepared.begin, prepared.lane);
  if (prepared.started != nullptr) rank_.record(prepared.started, prepared.lane);
  if (!is_communication(op.kind)) {
    rank_.queue_kernels(i);
    finish(i);
    return true;
  }
  if (op.transport == Transport::nccl || op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
    if (op.parts.count > 0 || op.kind == OpKind::all_reduce || op.kind == OpKind::barrier)
      link_->queue(i, messages_);
    finish(i);
    return true;
  }
  // Posting a receive is the permission for the peer to write.
  for (const std::uint32_t m : prepared.receives) {
    rank_.record(messages_[m].permitted, prepared.lane);
    messages_[m].permitted_in->store(iteration_.number, std::memory_order_release);
  }
  stages_[i] = Stage::posted;
  return true;
}

bool GpuIssuer::send(std::uint32_t i) {
  GpuOperation& prepared = rank_.operation(i);
  const CudaStream stream = rank_.lanes()[prepared.lane].stream;
  for (; sent_[i] < prepared.sends.size(); ++sent_[i]) {
    GpuMessage& message = messages_[prepared.sends[sent_[i]]];
    if (message.permitted_in->load(std::memory_order_acquire) != iteration_.number) return false;
    rank_.wait(message.permitted, prepared.lane);
    if (iteration_.instrumented && sent_[i] == 0) rank_.record(prepared.moving, prepared.lane);
    for (const Chunk& chunk : message.chunks) {
      cuda_require(cudaMemcpyAsync(chunk.into, chunk.from, chunk.bytes, cudaMemcpyDeviceToDevice, stream),
                   "cudaMemcpyAsync to a peer", rank_.plan().rank);
    }
    rank_.record(message.arrived, prepared.lane);
    message.arrived_in->store(iteration_.number, std::memory_order_release);
  }
  if (iteration_.instrumented && prepared.sends.empty()) rank_.record(prepared.moving, prepared.lane);
  if (iteration_.instrumented) rank_.record(prepared.moved, prepared.lane);
  stages_[i] = Stage::sent;
  return true;
}

bool GpuIssuer::receive(std::uint32_t i) {
  GpuOperation& prepared = rank_.operation(i);
  for (const std::uint32_t m : prepared.receives) {
    if (messages_[m].arrived_in->load(std::memory_order_acquire) != iteration_.number) return false;
  }
  for (const std::uint32_t m : prepared.receives) rank_.wait(messages_[m].arrived, prepared.lane);
  finish(i);
  return true;
}

void GpuIssuer::finish(std::uint32_t i) {
  GpuOperation& prepared = rank_.operation(i);
  if (iteration_.instrumented) {
    rank_.record(prepared.end, prepared.lane);
    issue_s_[i] = std::chrono::duration<double>(Clock::now() - iteration_.start).count();
  }
  // Recorded last: once it is reached, the timing events are too.
  if (prepared.done != nullptr) rank_.record(prepared.done, prepared.lane);
  stages_[i] = Stage::issued;
}

void GpuIssuer::log_uses(std::uint32_t i) {
  if (iteration_.log == nullptr) return;
  for (const MemoryUse& use : rank_.binder().uses(rank_.plan().operations[i])) {
    if (!touched_[use.buffer]) {
      const Buffer& buffer = rank_.plan().buffers[use.buffer];
      touched_[use.buffer] = true;
      iteration_.log->blocks.push_back({use.buffer, buffer.offset, buffer.bytes});
    }
    iteration_.log->uses.push_back(use);
  }
}

bool GpuIssuer::complete() const {
  if (!all_issued()) return false;
  for (const GpuLane& lane : rank_.lanes()) {
    if (!rank_.reached(rank_.operation(lane.operations.back()).done)) return false;
  }
  return true;
}

bool GpuIssuer::forward_complete() const {
  for (std::size_t l = 0; l < heads_.size(); ++l) {
    const GpuLane& lane = rank_.lanes()[l];
    if (lane.forward == 0) continue;
    if (heads_[l] < lane.forward || !rank_.reached(rank_.operation(lane.operations[lane.forward - 1]).done))
      return false;
  }
  return true;
}

std::uint32_t GpuIssuer::first_not_issued() const {
  const auto open = std::find_if(stages_.begin(), stages_.end(), [](Stage s) { return s != Stage::issued; });
  return static_cast<std::uint32_t>(open - stages_.begin());
}

std::uint32_t GpuIssuer::first_unfinished() const {
  // An operation without an event is done when a later one of its lane is.
  auto first = static_cast<std::uint32_t>(rank_.plan().operations.size());
  for (const GpuLane& lane : rank_.lanes()) {
    std::size_t open = 0;
    for (std::size_t k = 0; k < lane.operations.size(); ++k) {
      const std::uint32_t i = lane.operations[k];
      if (stages_[i] != Stage::issued) break;
      const GpuEvent done = rank_.operation(i).done;
      if (done == nullptr) continue;
      if (!rank_.reached(done)) break;
      open = k + 1;
    }
    // Only the next event tells: if a communication recorded it, that is what the lane waits in (kernels
    // before it are short).
    if (open >= lane.operations.size()) continue;
    std::size_t waits = open;
    while (waits + 1 < lane.operations.size() && rank_.operation(lane.operations[waits]).done == nullptr &&
           stages_[lane.operations[waits]] == Stage::issued) {
      ++waits;
    }
    if (is_communication(rank_.plan().operations[lane.operations[waits]].kind)) {
      first = std::min(first, lane.operations[waits]);
    } else {
      first = std::min(first, lane.operations[open]);
    }
  }
  return first;
}

}  // namespace cplab
