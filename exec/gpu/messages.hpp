// The messages of a plan between ranks on GPUs: which send meets which receive, as chunks of memory, and for
// the link `copy` the two events that cross ranks: the receiver's permission and the sender's completion.
// Ranks in other processes are reached by CUDA IPC.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "derive/walk.hpp"
#include "exec/chunks.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/gpu/team.hpp"
#include "exec/processes/board.hpp"

namespace cplab {

struct GpuMessage {
  Match match;
  bool copy = false;          // over the link copy
  std::vector<Chunk> chunks;  // from the sender's memory into the receiver's
  // Link copy. An event may be waited for only after it was recorded: the counters say in which repetition
  // that was done last (1 is the first).
  GpuEvent permitted = nullptr;  // the receiver's: the memory may be written
  GpuEvent arrived = nullptr;    // the sender's: the data is there
  Board::Counter* permitted_in = nullptr;
  Board::Counter* arrived_in = nullptr;
};

// All messages of a plan, in an order in which they can happen; a part without a counterpart is in none.
class GpuMessages {
 public:
  // `ranks` by rank of the plan, null where a rank belongs to another process; local operations learn their
  // messages. Collective over processes. Throws BadPlan where two ends differ in shape or dtype, GpuError.
  GpuMessages(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);
  ~GpuMessages();
  GpuMessages(const GpuMessages&) = delete;
  GpuMessages& operator=(const GpuMessages&) = delete;

  GpuMessage& operator[](std::uint32_t i) { return messages_[i]; }
  const GpuMessage& operator[](std::uint32_t i) const { return messages_[i]; }
  auto begin() const { return messages_.begin(); }
  auto end() const { return messages_.end(); }

 private:
  void open_memory(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);
  void make_events(std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);
  void open_events(std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);

  std::deque<GpuMessage> messages_;
  std::vector<const Binder*> binders_;           // by rank
  std::vector<std::unique_ptr<Binder>> remote_;  // of ranks of other processes
  std::vector<void*> opened_memory_;
  std::vector<GpuEvent> opened_events_;
  Board board_;
};

}  // namespace cplab
