// Queues a plan on streams; see issuer.hpp.
#include "exec/gpu/issuer.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <limits>

#include "exec/gpu/device_work.hpp"
#include "exec/gpu/peer_sum.hpp"

namespace cplab {

namespace {

// What the link copy carries by events and sums instead of messages.
bool sums_or_meets(OpKind kind) {
  return kind == OpKind::reduce_scatter || kind == OpKind::all_reduce || kind == OpKind::barrier;
}

std::size_t place_in(const GpuMeeting& meeting, int rank) {
  const std::vector<OpRef>& members = meeting.plan.members;
  return static_cast<std::size_t>(std::find_if(members.begin(), members.end(),
                                               [&](OpRef m) { return static_cast<int>(m.rank) == rank; }) -
                                  members.begin());
}

void queue_copy(const ByteBlock& block, CudaStream stream, int rank) {
  const cudaMemcpyKind kind = cudaMemcpyDeviceToDevice;
  if (block.count == 1) {
    cuda_require(cudaMemcpyAsync(block.into, block.from, block.bytes, kind, stream), "cudaMemcpyAsync", rank);
    return;
  }
  cuda_require(cudaMemcpy2DAsync(block.into, block.into_stride, block.from, block.from_stride, block.bytes,
                                 block.count, kind, stream),
               "cudaMemcpy2DAsync", rank);
}

}  // namespace

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
    const bool may = !held && next <= host_syncs_;
    const Stage stage = stages_[next];
    const std::size_t sent = sent_[next];
    if (!may || !step(next)) {
      // A step that went part of the way may be what another rank waits for.
      progress = progress || stages_[next] != stage || sent_[next] != sent;
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
  if (stages_[i] == Stage::issued) return true;
  if (sums_or_meets(rank_.plan().operations[i].kind)) {
    const GpuMeeting& meeting = *meeting_of(i);
    return (stages_[i] != Stage::posted || meet(i, meeting)) &&
           (stages_[i] != Stage::sent || part(i, meeting));
  }
  if (stages_[i] == Stage::posted && !send(i)) return false;
  if (stages_[i] == Stage::sent && !receive(i)) return false;
  return true;
}

const GpuMeeting* GpuIssuer::meeting_of(std::uint32_t i) const {
  return messages_.meeting_of({static_cast<std::uint32_t>(rank_.plan().rank), i});
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
  // A part without a counterpart, or a member that never comes: the operation can never complete, so it is
  // not issued at all, on any link. NCCL might buffer a message that nobody receives, but no plan may rely on
  // that.
  if (is_communication(op.kind) && prepared.sends.size() + prepared.receives.size() != op.parts.count) {
    return false;
  }
  const bool has_work = op.parts.count > 0 || op.kind == OpKind::all_reduce || op.kind == OpKind::barrier;
  const bool meets = sums_or_meets(op.kind) && has_work;
  if (meets && meeting_of(i) == nullptr) return false;
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
  // The start first, with its head start: mostly it is over before the operation may begin anyway.
  bool beside_nccl = false;
  for (const std::uint32_t edge : plan.after_started(op)) {
    rank_.wait(rank_.operation(edge).started, prepared.lane);
    beside_nccl = beside_nccl || plan.operations[edge].transport == Transport::nccl;
  }
  if (beside_nccl) rank_.queue_head_start(prepared.lane);
  for (const std::uint32_t edge : plan.after(op)) rank_.wait(rank_.operation(edge).done, prepared.lane);
  log_uses(i);
  rank_.queue_before(i, iteration_.jitter);
  if (iteration_.instrumented) rank_.record(prepared.begin, prepared.lane);
  if (prepared.started != nullptr) rank_.record(prepared.started, prepared.lane);
  if (!is_communication(op.kind)) {
    rank_.queue_kernels(i);
    finish(i);
    return true;
  }
  if (op.transport == Transport::nccl || !has_work) {
    if (has_work) link_->queue(i, messages_);
    finish(i);
    return true;
  }
  if (meets) {
    const GpuMeeting& meeting = *meeting_of(i);
    meeting.members[place_in(meeting, rank_.plan().rank)].came->record(rank_, prepared.lane,
                                                                       iteration_.number);
  } else {
    // Posting a receive is the permission for the peer to write.
    for (const std::uint32_t m : prepared.receives)
      messages_[m].permitted->record(rank_, prepared.lane, iteration_.number);
  }
  stages_[i] = Stage::posted;
  return true;
}

bool GpuIssuer::send(std::uint32_t i) {
  GpuOperation& prepared = rank_.operation(i);
  const CudaStream stream = rank_.lanes()[prepared.lane].stream;
  for (; sent_[i] < prepared.sends.size(); ++sent_[i]) {
    const GpuMessage& message = messages_[prepared.sends[sent_[i]]];
    if (!message.permitted->recorded(iteration_.number)) return false;
    message.permitted->wait(rank_, prepared.lane);
    if (iteration_.instrumented && sent_[i] == 0) rank_.record(prepared.moving, prepared.lane);
    const bool stays = message.match.receiver.rank == message.match.sender.rank;
    for (const ByteBlock& block : message.blocks) {
      if (stays) {
        cuda_require(queue_local_copy(stream, block), "a copy that stays", rank_.plan().rank);
      } else {
        queue_copy(block, stream, rank_.plan().rank);
      }
    }
    message.arrived->record(rank_, prepared.lane, iteration_.number);
  }
  if (iteration_.instrumented && prepared.sends.empty()) rank_.record(prepared.moving, prepared.lane);
  if (iteration_.instrumented) rank_.record(prepared.moved, prepared.lane);
  stages_[i] = Stage::sent;
  return true;
}

bool GpuIssuer::receive(std::uint32_t i) {
  GpuOperation& prepared = rank_.operation(i);
  for (const std::uint32_t m : prepared.receives) {
    if (!messages_[m].arrived->recorded(iteration_.number)) return false;
  }
  for (const std::uint32_t m : prepared.receives) messages_[m].arrived->wait(rank_, prepared.lane);
  finish(i);
  return true;
}

// Once all members have come, their memory may be read and written.
bool GpuIssuer::meet(std::uint32_t i, const GpuMeeting& meeting) {
  GpuOperation& prepared = rank_.operation(i);
  for (const GpuMember& member : meeting.members)
    if (!member.came->recorded(iteration_.number)) return false;
  for (const GpuMember& member : meeting.members) member.came->wait(rank_, prepared.lane);
  if (iteration_.instrumented) rank_.record(prepared.moving, prepared.lane);
  queue_sums(i, meeting);
  if (iteration_.instrumented) rank_.record(prepared.moved, prepared.lane);
  const GpuMember& own = meeting.members[place_in(meeting, rank_.plan().rank)];
  if (own.done != nullptr) own.done->record(rank_, prepared.lane, iteration_.number);
  stages_[i] = Stage::sent;
  return true;
}

// Once all members are done, nobody reads this rank's memory or has still to write to it.
bool GpuIssuer::part(std::uint32_t i, const GpuMeeting& meeting) {
  for (const GpuMember& member : meeting.members)
    if (member.done != nullptr && !member.done->recorded(iteration_.number)) return false;
  for (const GpuMember& member : meeting.members)
    if (member.done != nullptr) member.done->wait(rank_, rank_.operation(i).lane);
  finish(i);
  return true;
}

// Of a reduce_scatter the sums of which this rank is the root; of an all_reduce its share of every sum.
void GpuIssuer::queue_sums(std::uint32_t i, const GpuMeeting& meeting) {
  const std::size_t own = place_in(meeting, rank_.plan().rank), members = meeting.plan.members.size();
  for (const Sum& sum : meeting.plan.sums) {
    if (sum.root >= 0 && static_cast<std::size_t>(sum.root) != own) continue;
    const Share share = sum.root >= 0 ? Share{0, sum.bytes} : share_of(sum.bytes, members, own);
    PeerSum call;
    call.dtype = sum.dtype;
    call.maximum = meeting.plan.reduction == Reduction::max;
    call.elements = (share.end - share.begin) / static_cast<std::int64_t>(kernels::bytes_of(sum.dtype));
    call.sources = static_cast<int>(members);
    call.results = static_cast<int>(sum.into.size());
    for (std::size_t m = 0; m < members; ++m)
      call.from[m] = messages_.address(meeting.plan.members[m].rank, sum.from[m]) + share.begin;
    for (std::size_t m = 0; m < sum.into.size(); ++m) {
      const std::size_t member = sum.root >= 0 ? own : m;
      call.into[m] = messages_.address(meeting.plan.members[member].rank, sum.into[m]) + share.begin;
    }
    cuda_require(queue_peer_sum(rank_.lanes()[rank_.operation(i).lane].stream, call), "a sum over peers",
                 rank_.plan().rank);
  }
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
