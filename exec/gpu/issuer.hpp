// Queues one iteration of one rank's plan on its GPU's streams. It never blocks: what has to wait for a
// peer's host thread is taken up again later, while other lanes go on. So host threads wait for each other
// exactly where the lanes would.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "exec/gpu/messages.hpp"
#include "exec/gpu/nccl_link.hpp"
#include "exec/gpu/rank.hpp"
#include "exec/memory_log.hpp"

namespace cplab {

class GpuIssuer {
 public:
  using Clock = std::chrono::steady_clock;

  // `link` may be null if no operation uses it.
  GpuIssuer(GpuRank& rank, GpuMessages& messages, NcclLink* link);

  struct Iteration {
    std::uint32_t number = 1;  // counts from 1
    bool jitter = true;
    bool instrumented = false;    // timing events, issue times
    bool holds_backward = false;  // until release_backward()
    MemoryLog* log = nullptr;     // to be filled, or null
    Clock::time_point start{};    // issue times count from here
  };
  void begin(const Iteration& iteration);
  // Queues what can be queued. False if nothing could be.
  bool advance();
  // From here on operations of the backward are queued too; before, only if the iteration does not hold them.
  void release_backward() { holds_backward_ = false; }
  bool forward_complete() const;  // the forward is queued and the GPU has done it; throws GpuError
  std::size_t issued() const { return stages_.size() - left_; }
  bool all_issued() const { return left_ == 0; }
  bool complete() const;  // all_issued() and the GPU has done it; throws GpuError

  // The first operation, in program order, that is not known to be complete; the number of operations if all
  // are.
  std::uint32_t first_unfinished() const;
  std::uint32_t first_not_issued() const;  // likewise; all that counts inside a graph's capture
  const std::vector<double>& issue_s() const { return issue_s_; }

 private:
  // posted: receives are permitted, or the others of a sum know that this rank has come. sent: its data has
  // been queued to leave, or its sums have.
  enum class Stage : std::uint8_t { waiting, posted, sent, issued };

  bool step(std::uint32_t operation);
  bool begin_operation(std::uint32_t operation);
  bool send(std::uint32_t operation);
  bool receive(std::uint32_t operation);
  bool meet(std::uint32_t operation, const GpuMeeting& meeting);
  bool part(std::uint32_t operation, const GpuMeeting& meeting);
  void queue_sums(std::uint32_t operation, const GpuMeeting& meeting);
  const GpuMeeting* meeting_of(std::uint32_t operation) const;
  void finish(std::uint32_t operation);
  void log_uses(std::uint32_t operation);

  GpuRank& rank_;
  GpuMessages& messages_;
  NcclLink* link_;
  Iteration iteration_;
  std::vector<std::size_t> heads_;   // by lane: operations of it that are issued
  std::vector<Stage> stages_;        // by operation
  std::vector<std::uint32_t> sent_;  // by operation: messages of it that are queued
  std::vector<double> issue_s_;
  std::vector<bool> touched_;
  std::size_t left_ = 0;
  bool holds_backward_ = false;
  std::uint32_t host_syncs_ = 0;  // operations before this one may be issued: the first open host_sync
};

}  // namespace cplab
