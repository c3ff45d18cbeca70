// Figures derived from a plan and a timeline of it: the same function for what the simulator predicts and
// what the executor measures, so that the two can be compared. Seconds and bytes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "derive/memory.hpp"
#include "plan/islands.hpp"
#include "plan/plan.hpp"
#include "report/timeline.hpp"

namespace cplab {

struct RankFigures {
  int rank = 0;  // global
  int replica = 0;
  int position = 0;
  // End of its last operation. With direction = "backward" all seconds are of that phase, this one since the
  // forward ended on all ranks; bytes and memory are of both.
  double time_s = 0;
  double compute_s = 0;  // time in which at least one compute lane runs an operation
  // Time in which at least one communication has started and not ended, waiting for peers included.
  double communication_s = 0;
  // The part of communication_s in which no compute lane runs anything. It is the sum of: time in which every
  // communication under way still lacks a peer (report/peers.hpp), and time in which one has all of them.
  double exposed_communication_s = 0;
  double exposed_wait_s = 0, exposed_transfer_s = 0;
  std::int64_t peak_bytes = 0;      // MemoryPlan::live_peak_bytes
  std::int64_t arena_bytes = 0;     // RankPlan::arena_bytes
  std::int64_t saved_bytes = 0;     // MemoryPlan::saved_bytes: what stays while other layers run; the rest of
                                    // peak_bytes is transient
  std::int64_t sent_bytes = 0;      // to other ranks; an all_reduce counts what its operation says
  std::int64_t received_bytes = 0;  // from other ranks; an all_reduce receives what it sends
};

struct PhaseTime {
  Phase phase = Phase::forward;
  double time_s = 0;
};

struct PeakBuffer {
  std::string name;
  Category category = Category::working;
  std::int64_t bytes = 0;
};

// Shares (0 to 1) of the busy time, the sum over all operations of end - start - wait, by where the duration
// comes from. They sum to 1, or are all 0 when nothing took time.
struct OriginShares {
  double measured = 0;
  double interpolated = 0;
  double extrapolated = 0;
  double assumed = 0;
};

struct Figures {
  double time_s = 0;  // the last end over all ranks; with direction = "backward" the time of that phase
  // forward: from 0 to the last end of a forward operation on any rank; backward (if the plan has one): the
  // rest. They sum to the last end.
  std::vector<PhaseTime> phases;
  std::vector<RankFigures> ranks;
  std::int64_t peak_bytes = 0;           // the largest of the ranks'
  int peak_rank = 0;                     // the first rank that has it
  std::vector<PeakBuffer> peak_buffers;  // of that rank, alive at its peak, in buffer order
  std::int64_t messages = 0;             // parts sent to other ranks, all ranks and phases
  std::int64_t host_syncs = 0;           // all ranks
  std::vector<TransportUse> transports;  // what went over which
  OriginShares origins;

  // Something stays while other layers run between the phases (schedule.between).
  bool saves() const {
    return std::any_of(ranks.begin(), ranks.end(), [](const RankFigures& r) { return r.saved_bytes > 0; });
  }
};

// memory[r] is plan_memory(plan.ranks[r]). Linear in the number of operations and parts (lanes are in order).
// An operation that computes does so on a compute lane: a communication or a host_sync put there is no
// computation. Throws std::invalid_argument when timeline or memory do not belong to the plan by their sizes.
Figures derive_figures(const Plan& plan, const Timeline& timeline, std::span<const MemoryPlan> memory);

// Of many ranks those that stand for all: the one that ends last, the median, the one that ends first; of
// ranks that end together by exposed communication, then by number. Fewer than three where there are fewer.
struct NotableRank {
  std::size_t rank = 0;   // index into Figures::ranks
  std::string_view role;  // "worst", "median", "best"
};
std::vector<NotableRank> notable_ranks(const std::vector<RankFigures>&);

// Whether the largest arena plus fixed_bytes (context, communication library) fits a GPU.
struct Fit {
  std::int64_t capacity_bytes = 0;
  std::int64_t fixed_bytes = 0;
  bool fits = false;
  std::int64_t headroom_bytes = 0;  // what is left; negative when it does not fit
};
Fit fit(const Figures& figures, std::int64_t capacity_bytes, std::int64_t fixed_bytes);

}  // namespace cplab
