// Events that one rank records and others wait for, also in other processes (CUDA IPC). An event may be
// waited for only after it was recorded: a counter beside it says in which repetition that was done last (1
// is the first).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "exec/gpu/rank.hpp"
#include "exec/gpu/team.hpp"
#include "exec/processes/board.hpp"

namespace cplab {

class CrossEvent {
 public:
  // By the owner: marks what its lane has reached.
  void record(GpuRank& owner, std::uint32_t lane, std::uint32_t repetition) const {
    owner.record(event_, lane);
    recorded_in_->store(repetition, std::memory_order_release);
  }
  bool recorded(std::uint32_t repetition) const {
    return recorded_in_->load(std::memory_order_acquire) == repetition;
  }
  // After recorded(): what is queued on the lane from now on runs behind what the owner marked.
  void wait(GpuRank& waiter, std::uint32_t lane) const { waiter.wait(event_, lane); }

 private:
  friend class CrossEvents;
  GpuEvent event_ = nullptr;
  Board::Counter* recorded_in_ = nullptr;
};

class CrossEvents {
 public:
  // owner[i] records event i and the ranks waiters[i] wait for it. `ranks` by rank of the plan, null where a
  // rank belongs to another process. Collective over processes. Throws GpuError, RendezvousError.
  struct Use {
    int owner = 0;
    std::vector<int> waiters;
  };
  CrossEvents(const std::vector<Use>& uses, std::vector<std::unique_ptr<GpuRank>>& ranks,
              const GpuTeam& team);
  ~CrossEvents();
  CrossEvents(const CrossEvents&) = delete;
  CrossEvents& operator=(const CrossEvents&) = delete;

  const CrossEvent& operator[](std::size_t i) const { return events_[i]; }

 private:
  void open(const std::vector<Use>& uses, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);

  std::vector<CrossEvent> events_;
  std::vector<GpuEvent> opened_;
  Board board_;
};

}  // namespace cplab
