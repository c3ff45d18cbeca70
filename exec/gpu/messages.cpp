// Messages between ranks on GPUs; see messages.hpp.
#include "exec/gpu/messages.hpp"

#include <cuda_runtime.h>

#include <cstring>

namespace cplab {

namespace {

constexpr double patience_s = 60;  // until all processes have come to the same point

std::deque<GpuMessage> match(const Plan& plan) {
  std::deque<GpuMessage> messages;
  Walk walk(plan);
  std::vector<OpRef> ready, members;
  std::vector<Match> matched;
  walk.begin(ready);
  while (!ready.empty()) {
    const OpRef ref = ready.back();
    ready.pop_back();
    const Operation& op = plan.ranks[ref.rank].operations[ref.operation];
    if (op.kind == OpKind::all_reduce || op.kind == OpKind::barrier) {
      members.clear();
      if (!walk.meet(ref, members)) continue;
      for (const OpRef member : members) walk.complete(member, ready);
      continue;
    }
    if (!is_communication(op.kind) || op.parts.count == 0) {
      walk.complete(ref, ready);
      continue;
    }
    matched.clear();
    walk.post(ref, matched);
    for (const Match& found : matched) {
      GpuMessage& message = messages.emplace_back();
      message.match = found;
      message.copy =
          plan.ranks[found.receiver.rank].operations[found.receiver.operation].transport == Transport::copy;
      if (walk.part_done(found.sender)) walk.complete(found.sender, ready);
      if (walk.part_done(found.receiver)) walk.complete(found.receiver, ready);
    }
  }
  return messages;
}

}  // namespace

GpuMessages::GpuMessages(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team)
    : messages_(match(plan)), board_(team.make_board(2 * messages_.size() + 1)) {
  open_memory(plan, ranks, team);
  for (std::uint32_t m = 0; m < messages_.size(); ++m) {
    GpuMessage& message = messages_[m];
    const Match& match = message.match;
    message.permitted_in = &board_.cell(2 * m);
    message.arrived_in = &board_.cell(2 * m + 1);
    GpuRank* sender = ranks[match.sender.rank].get();
    GpuRank* receiver = ranks[match.receiver.rank].get();
    if (sender != nullptr) sender->operation(match.sender.operation).sends.push_back(m);
    if (receiver != nullptr) receiver->operation(match.receiver.operation).receives.push_back(m);
    if (sender == nullptr && receiver == nullptr) continue;
    const RankPlan& from = plan.ranks[match.sender.rank];
    const RankPlan& into = plan.ranks[match.receiver.rank];
    const auto pairs = matching_pieces(
        *binders_[match.sender.rank], from.operations[match.sender.operation],
        from.views[from.parts[match.send_part].view], *binders_[match.receiver.rank],
        into.operations[match.receiver.operation], into.views[into.parts[match.receive_part].view]);
    for (const auto& [source, target] : pairs) {
      for (const Chunk& chunk : contiguous_chunks(source, target)) message.chunks.push_back(chunk);
    }
  }
  make_events(ranks, team);
  if (team.rendezvous() != nullptr) open_events(ranks, team);
}

GpuMessages::~GpuMessages() {
  for (const GpuEvent event : opened_events_) (void)cudaEventDestroy(event);
  for (void* memory : opened_memory_) (void)cudaIpcCloseMemHandle(memory);
}

// Binders of all ranks; those of other processes see the rank's arena where it is mapped here, or nowhere if
// nothing is copied to or from them.
void GpuMessages::open_memory(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks,
                              const GpuTeam& team) {
  struct Shared {
    cudaIpcMemHandle_t handle;
    std::int64_t arena_offset;
  };
  const int own = team.local().front();
  bool copies = false;
  for (const GpuMessage& message : messages_) copies = copies || message.copy;
  std::vector<Shared> all;
  if (team.rendezvous() != nullptr && copies) {
    GpuRank& local = *ranks[static_cast<std::size_t>(own)];
    local.use_device();
    Shared mine{};
    mine.arena_offset = local.arena_offset();
    cuda_require(cudaIpcGetMemHandle(&mine.handle, local.arena_allocation()), "cudaIpcGetMemHandle", own);
    all = team.rendezvous()->all_gather_value(mine, patience_s);
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
    std::byte* base = nullptr;
    if (!all.empty()) {
      void* mapped = nullptr;
      cuda_require(cudaIpcOpenMemHandle(&mapped, all[r].handle, cudaIpcMemLazyEnablePeerAccess),
                   "cudaIpcOpenMemHandle", own);
      opened_memory_.push_back(mapped);
      base = static_cast<std::byte*>(mapped) + all[r].arena_offset;
    }
    remote_.push_back(std::make_unique<Binder>(rank, plan.scenario.problem.dtype, base));
    binders_.push_back(remote_.back().get());
  }
}

void GpuMessages::make_events(std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team) {
  const EventUse use = team.rendezvous() != nullptr ? EventUse::between_processes : EventUse::order;
  for (GpuMessage& message : messages_) {
    if (!message.copy) continue;
    if (GpuRank* receiver = ranks[message.match.receiver.rank].get()) {
      receiver->use_device();
      message.permitted = receiver->new_event(use);
    }
    if (GpuRank* sender = ranks[message.match.sender.rank].get()) {
      sender->use_device();
      message.arrived = sender->new_event(use);
    }
  }
}

void GpuMessages::open_events(std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team) {
  struct Handles {
    cudaIpcEventHandle_t permitted{}, arrived{};
  };
  const int own = team.local().front();
  ranks[static_cast<std::size_t>(own)]->use_device();
  std::vector<Handles> mine(messages_.size());
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    const GpuMessage& message = messages_[m];
    if (message.permitted != nullptr) {
      cuda_require(cudaIpcGetEventHandle(&mine[m].permitted, message.permitted), "cudaIpcGetEventHandle",
                   own);
    }
    if (message.arrived != nullptr) {
      cuda_require(cudaIpcGetEventHandle(&mine[m].arrived, message.arrived), "cudaIpcGetEventHandle", own);
    }
  }
  const auto all = team.rendezvous()->all_gather(std::as_bytes(std::span(mine)), patience_s);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].size() != mine.size() * sizeof(Handles))
      throw RendezvousError("rank " + std::to_string(r) +
                            " has another number of messages than this rank: " + "it executes another plan");
  const auto open = [&](std::size_t owner, std::size_t m, bool permitted) {
    Handles handles;
    std::memcpy(&handles, all[owner].data() + m * sizeof(Handles), sizeof(Handles));
    GpuEvent event = nullptr;
    cuda_require(cudaIpcOpenEventHandle(&event, permitted ? handles.permitted : handles.arrived),
                 "cudaIpcOpenEventHandle", own);
    opened_events_.push_back(event);
    return event;
  };
  for (std::size_t m = 0; m < messages_.size(); ++m) {
    GpuMessage& message = messages_[m];
    if (!message.copy) continue;
    const bool sends = ranks[message.match.sender.rank] != nullptr;
    const bool receives = ranks[message.match.receiver.rank] != nullptr;
    if (sends && !receives) message.permitted = open(message.match.receiver.rank, m, true);
    if (receives && !sends) message.arrived = open(message.match.sender.rank, m, false);
  }
}

}  // namespace cplab
