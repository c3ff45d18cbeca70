// Events between ranks; see cross_events.hpp.
#include "exec/gpu/cross_events.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <string>

namespace cplab {

CrossEvents::CrossEvents(const std::vector<Use>& uses, std::vector<std::unique_ptr<GpuRank>>& ranks,
                         const GpuTeam& team)
    : events_(uses.size()), board_(team.make_board(uses.size() + 1)) {
  const EventUse kind = team.rendezvous() != nullptr ? EventUse::between_processes : EventUse::order;
  for (std::size_t i = 0; i < uses.size(); ++i) {
    events_[i].recorded_in_ = &board_.cell(i);
    GpuRank* owner = ranks[static_cast<std::size_t>(uses[i].owner)].get();
    if (owner == nullptr) continue;
    owner->use_device();
    events_[i].event_ = owner->new_event(kind);
  }
  if (team.rendezvous() != nullptr && !uses.empty()) open(uses, ranks, team);
}

CrossEvents::~CrossEvents() {
  for (const GpuEvent event : opened_) (void)cudaEventDestroy(event);
}

void CrossEvents::open(const std::vector<Use>& uses, std::vector<std::unique_ptr<GpuRank>>& ranks,
                       const GpuTeam& team) {
  const int own = team.local().front();
  ranks[static_cast<std::size_t>(own)]->use_device();
  std::vector<cudaIpcEventHandle_t> mine(uses.size());
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (events_[i].event_ == nullptr) continue;
    cuda_require(cudaIpcGetEventHandle(&mine[i], events_[i].event_), "cudaIpcGetEventHandle", own);
  }
  const auto all = team.rendezvous()->all_gather(std::as_bytes(std::span(mine)), team.patience_s);
  for (std::size_t r = 0; r < all.size(); ++r)
    if (all[r].size() != mine.size() * sizeof(cudaIpcEventHandle_t))
      throw RendezvousError("rank " + std::to_string(r) +
                            " has another number of messages than this rank: it executes another plan");
  for (std::size_t i = 0; i < uses.size(); ++i) {
    const std::vector<int>& waiters = uses[i].waiters;
    if (events_[i].event_ != nullptr || std::find(waiters.begin(), waiters.end(), own) == waiters.end())
      continue;
    cudaIpcEventHandle_t handle;
    const auto& theirs = all[static_cast<std::size_t>(uses[i].owner)];
    std::memcpy(&handle, theirs.data() + i * sizeof(handle), sizeof(handle));
    cuda_require(cudaIpcOpenEventHandle(&events_[i].event_, handle), "cudaIpcOpenEventHandle", own);
    opened_.push_back(events_[i].event_);
  }
}

}  // namespace cplab
