// Messages between ranks on GPUs; see messages.hpp.
#include "exec/gpu/messages.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <utility>

namespace cplab {

namespace {

bool goes_over_copy(const Plan& plan, OpRef ref) {
  return plan.ranks[ref.rank].operations[ref.operation].transport == Transport::copy;
}

}  // namespace

PlannedMessages::PlannedMessages(const Plan& plan)
    : messages(plan_messages(plan)),
      posted(posted_parts(plan, messages)),
      meetings(plan_meetings(plan, messages, posted)) {}

GpuMessages::GpuMessages(const Plan& plan, const PlannedMessages& planned_messages,
                         std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team) {
  const auto& posted = planned_messages.posted;
  bool copies = false;
  for (const Meeting& meeting : planned_messages.meetings) {
    copies = copies || meeting.transport == Transport::copy;
    meetings_.push_back({meeting, {}});
  }
  for (const PlanMessage& message : planned_messages.messages)
    copies = copies || goes_over_copy(plan, message.match.receiver);
  open_memory(plan, ranks, team, copies);

  for (const PlanMessage& planned : planned_messages.messages) {
    GpuMessage& message = messages_.emplace_back();
    const Match& match = message.match = planned.match;
    if (ranks[match.sender.rank] == nullptr && ranks[match.receiver.rank] == nullptr) continue;
    const RankPlan &from = plan.ranks[match.sender.rank], &into = plan.ranks[match.receiver.rank];
    const std::uint32_t source = from.views[from.parts[match.send_part].view].buffer;
    const std::uint32_t target = into.views[into.parts[match.receive_part].view].buffer;
    const auto from_at = [&](std::int64_t byte) { return address(match.sender.rank, {source, byte}); };
    const auto into_at = [&](std::int64_t byte) { return address(match.receiver.rank, {target, byte}); };
    for (std::size_t i = 0; i < planned.from.size(); ++i) {
      message.runs.push_back({from_at(planned.from[i].offset), into_at(planned.into[i].offset),
                              static_cast<std::size_t>(planned.from[i].bytes)});
    }
    if (from.buffers[source].apart || into.buffers[target].apart) {  // no stride leads from plane to plane
      for (const ByteRun& run : message.runs)
        message.blocks.push_back({run.from, run.into, run.bytes, 1, 0, 0});
      continue;
    }
    for (const StridedPieces& some : strided_pieces(planned.from, planned.into)) {
      message.blocks.push_back({from_at(some.from), into_at(some.into), static_cast<std::size_t>(some.bytes),
                                static_cast<std::size_t>(some.count),
                                static_cast<std::size_t>(some.from_stride),
                                static_cast<std::size_t>(some.into_stride)});
    }
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    meeting_of_.emplace_back(plan.ranks[r].operations.size());
    if (ranks[r] == nullptr) continue;
    for (std::uint32_t i = 0; i < posted[r].size(); ++i) {
      ranks[r]->operation(i).sends = posted[r][i].sends;
      ranks[r]->operation(i).receives = posted[r][i].receives;
    }
  }
  for (std::uint32_t m = 0; m < meetings_.size(); ++m)
    for (const OpRef member : meetings_[m].plan.members) meeting_of_[member.rank][member.operation] = m + 1;
  make_events(plan, ranks, team);
}

GpuMessages::~GpuMessages() {
  for (void* memory : opened_memory_) (void)cudaIpcCloseMemHandle(memory);
}

const GpuMeeting* GpuMessages::meeting_of(OpRef ref) const {
  const std::uint32_t m = meeting_of_[ref.rank][ref.operation];
  return m == 0 ? nullptr : &meetings_[m - 1];
}

// Binders of all ranks; those of other processes see the rank's arena where it is mapped here, or nowhere if
// nothing is copied to or from them.
void GpuMessages::open_memory(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks,
                              const GpuTeam& team, bool copies) {
  struct Shared {
    cudaIpcMemHandle_t handle;
    std::int64_t arena_offset;
  };
  const int own = team.local().front();
  std::vector<Shared> all;
  if (team.rendezvous() != nullptr && copies) {
    GpuRank& local = *ranks[static_cast<std::size_t>(own)];
    local.use_device();
    Shared mine{};
    mine.arena_offset = local.arena_offset();
    cuda_require(cudaIpcGetMemHandle(&mine.handle, local.arena_allocation()), "cudaIpcGetMemHandle", own);
    all = team.rendezvous()->all_gather_value(mine, team.patience_s);
    for (const Shared& each : all)  // the red zone before the arena
      if (each.arena_offset != mine.arena_offset)
        throw RendezvousError("another process lays out its arena as this one does not");
  }
  for (const RankPlan& rank : plan.ranks) {
    const auto r = static_cast<std::size_t>(rank.rank);
    if (ranks[r] != nullptr) {
      binders_.push_back(&ranks[r]->binder());
      continue;
    }
    if (all.empty()) {
      binders_.push_back(nullptr);
      continue;
    }
    void* mapped = nullptr;
    cuda_require(cudaIpcOpenMemHandle(&mapped, all[r].handle, cudaIpcMemLazyEnablePeerAccess),
                 "cudaIpcOpenMemHandle", own);
    opened_memory_.push_back(mapped);
    std::byte* base = static_cast<std::byte*>(mapped) + all[r].arena_offset;
    remote_.push_back(std::make_unique<Binder>(rank, plan.scenario.problem.dtype, base));
    binders_.push_back(remote_.back().get());
  }
}

// Two events for each message over the link copy that is carried as one, and for each member of a sum.
void GpuMessages::make_events(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks,
                              const GpuTeam& team) {
  std::vector<CrossEvents::Use> uses;
  std::vector<const CrossEvent**> places;
  const auto add = [&](const CrossEvent*& place, std::uint32_t owner, std::vector<int> waiters) {
    uses.push_back({static_cast<int>(owner), std::move(waiters)});
    places.push_back(&place);
  };
  for (GpuMessage& message : messages_) {
    const OpRef from = message.match.sender, into = message.match.receiver;
    const OpKind kind = plan.ranks[into.rank].operations[into.operation].kind;
    if (!goes_over_copy(plan, into) || kind == OpKind::reduce_scatter) continue;
    add(message.permitted, into.rank, {static_cast<int>(from.rank)});
    add(message.arrived, from.rank, {static_cast<int>(into.rank)});
  }
  for (GpuMeeting& meeting : meetings_) {
    const Meeting& of = meeting.plan;
    if (of.transport != Transport::copy || of.kind == OpKind::all_gather) continue;
    meeting.members.resize(of.members.size());
    std::vector<int> all;
    for (const OpRef member : of.members) all.push_back(static_cast<int>(member.rank));
    for (std::size_t m = 0; m < of.members.size(); ++m) {
      add(meeting.members[m].came, of.members[m].rank, all);
      if (of.kind != OpKind::barrier) add(meeting.members[m].done, of.members[m].rank, all);
    }
  }
  events_.emplace(uses, ranks, team);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = &(*events_)[i];
}

}  // namespace cplab
