// The messages and collectives of a plan between ranks on GPUs: as addresses, and for the link `copy` with
// the events that cross ranks. Memory of ranks in other processes is reached by CUDA IPC.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "exec/byte_runs.hpp"
#include "exec/gpu/cross_events.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/gpu/team.hpp"
#include "exec/meetings.hpp"
#include "exec/plan_messages.hpp"

namespace cplab {

struct GpuMessage {
  Match match;
  // From the sender's memory into the receiver's, in message order. Of a rank in another process the
  // addresses are where its arena is mapped here, or of no use if nothing is copied to or from it.
  std::vector<ByteRun> runs;
  std::vector<ByteBlock> blocks;          // the same, as the link copy moves them
  const CrossEvent* permitted = nullptr;  // link copy: the receiver's, the memory may be written
  const CrossEvent* arrived = nullptr;    // link copy: the sender's, the data is there
};

// A member's part of a collective over the link copy that sums, or a barrier.
struct GpuMember {
  const CrossEvent* came = nullptr;  // its memory may be read and written by the others
  const CrossEvent* done = nullptr;  // it has read and written all that it reads and writes; null: nothing
};

struct GpuMeeting {
  Meeting plan;
  std::vector<GpuMember> members;  // link copy; else empty
};

// What a plan says of its messages before there is memory. Throws BadPlan where two ends differ in shape or
// dtype.
struct PlannedMessages {
  explicit PlannedMessages(const Plan&);
  std::deque<PlanMessage> messages;
  std::vector<std::vector<PostedParts>> posted;
  std::deque<Meeting> meetings;
};

class GpuMessages {
 public:
  // `ranks` by rank of the plan, null where a rank belongs to another process; local operations learn their
  // messages and meetings. Collective over processes. Throws GpuError.
  GpuMessages(const Plan& plan, const PlannedMessages& planned, std::vector<std::unique_ptr<GpuRank>>& ranks,
              const GpuTeam& team);
  ~GpuMessages();
  GpuMessages(const GpuMessages&) = delete;
  GpuMessages& operator=(const GpuMessages&) = delete;

  const GpuMessage& operator[](std::uint32_t i) const { return messages_[i]; }
  auto begin() const { return messages_.begin(); }
  auto end() const { return messages_.end(); }
  const std::deque<GpuMeeting>& meetings() const { return meetings_; }
  // Of the operation; null if it is in none.
  const GpuMeeting* meeting_of(OpRef) const;
  // Where `place` of a rank is in this process; null where it is not.
  std::byte* address(std::uint32_t rank, const Place& place) const {
    return binders_[rank] == nullptr ? nullptr : binders_[rank]->address(place);
  }

 private:
  void open_memory(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team,
                   bool copies);
  void make_events(const Plan& plan, std::vector<std::unique_ptr<GpuRank>>& ranks, const GpuTeam& team);

  std::deque<GpuMessage> messages_;
  std::deque<GpuMeeting> meetings_;
  std::vector<std::vector<std::uint32_t>> meeting_of_;  // by rank and operation: 1 + the number, or 0
  std::vector<const Binder*> binders_;                  // by rank; null: its memory is not reached from here
  std::vector<std::unique_ptr<Binder>> remote_;         // of ranks of other processes
  std::vector<void*> opened_memory_;
  std::optional<CrossEvents> events_;
};

}  // namespace cplab
