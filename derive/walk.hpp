// Readiness and matching of a plan's operations, for every reader that runs a plan (the simulator, the CPU
// executor). It knows order, not time: the reader decides when a ready operation runs and reports when it is
// complete.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>
#include <vector>

#include "derive/channel_queues.hpp"
#include "plan/plan.hpp"

namespace cplab {

// In place of an index into RankPlan::operations.
inline constexpr std::uint32_t no_operation = std::numeric_limits<std::uint32_t>::max();

struct OpRef {
  std::uint32_t rank = 0;       // index into Plan::ranks
  std::uint32_t operation = 0;  // index into RankPlan::operations
  bool operator==(const OpRef&) const = default;
};

// A send part and the receive part it pairs with (indices into the pools RankPlan::parts).
struct Match {
  OpRef sender;
  std::uint32_t send_part = 0;
  OpRef receiver;
  std::uint32_t receive_part = 0;
};

// An operation is ready when its predecessor on its lane, everything in its `after`, and every earlier
// host_sync of its rank are complete, and everything in its `after_started` has started.
// A communication, once ready, is posted; its parts match peers' posted parts; when the reader has moved the
// data of a match it calls part_done for both sides; the operation completes when all its parts are done.
// all_reduce and barrier meet: they match when every member of the group has posted its own.
class Walk {
 public:
  // `phases_apart`: operations of the backward are not ready before those of the forward are complete on
  // every rank, as if the ranks met between the phases.
  explicit Walk(const Plan& plan, bool phases_apart = false);

  // Appends the operations that are ready before anything has happened, by rank.
  void begin(std::vector<OpRef>& ready);

  // Posts a ready communication; appends the pairs that now match (both sides posted).
  void post(OpRef op, std::vector<Match>& matched);

  // For all_reduce and barrier instead of post: true when this was the last member; `members` then holds
  // the operations that met, in group order.
  bool meet(OpRef op, std::vector<OpRef>& members);

  // One part of a posted communication is done; true when it was the last. (An operation without parts has
  // nothing to wait for: complete it at once.)
  bool part_done(OpRef op);

  // A ready operation has started; appends the operations that waited only for this start. Optional, and to
  // be called before complete(): what is complete counts as started.
  void started(OpRef op, std::vector<OpRef>& ready);

  // The operation is complete; appends what became ready, by lane of its rank (with `phases_apart`, after the
  // forward's last operation, by lane of all ranks).
  void complete(OpRef op, std::vector<OpRef>& ready);

  bool finished() const { return remaining_ == 0; }
  std::uint64_t remaining() const { return remaining_; }

  // What every unfinished rank waits in, one line a rank (at most `lines`), for messages after a hang.
  std::string blocked(std::size_t lines = 16) const;

 private:
  struct LaneState {
    std::vector<std::uint32_t> queue;  // operations of this lane in order
    std::uint32_t done = 0;            // how many are complete
    std::uint32_t offered = 0;         // how many have been reported ready (done or done + 1)
    std::uint32_t parts_left = 0;      // of the posted communication at the head
    // What the head was found to wait for, so that it need not be looked at before that is complete: the
    // operation at that place of that lane.
    std::uint32_t blocker_place = 0;
    std::int32_t blocker_lane = -1;
  };
  struct RankState {
    std::vector<LaneState> lanes;
    std::vector<std::uint16_t> lane_of;        // by operation
    std::vector<std::uint32_t> place_in_lane;  // by operation
    std::vector<std::uint32_t> host_syncs;     // in order
    std::uint32_t host_syncs_done = 0;
    std::vector<bool> started;  // by operation; empty where no operation waits for a start
  };
  bool is_complete(const RankState&, std::uint32_t operation) const;
  bool is_ready(std::uint32_t rank, LaneState&) const;
  void offer(std::uint32_t rank, std::vector<OpRef>& ready);

  const Plan& plan_;
  std::vector<RankState> ranks_;
  ChannelQueues waiting_;  // posted parts without a partner yet, by (group, sender, receiver)
  std::unordered_map<std::uint32_t, std::vector<std::vector<OpRef>>> meetings_;  // by group, by member
  std::uint64_t remaining_ = 0;
  std::uint64_t forward_left_ = 0;  // operations of the forward that hold back the backward
};

}  // namespace cplab
