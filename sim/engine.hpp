// A plan under a clock: host lanes, kernels, communication. Internal to sim/; one Engine per process (see
// flow_engine.hpp). Time in microseconds.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "derive/walk.hpp"
#include "sim/critical_path.hpp"
#include "sim/flow_engine.hpp"
#include "sim/multiprocessors.hpp"
#include "sim/simulate.hpp"

namespace cplab {

class Engine {
 public:
  // `times` and `causes` have one entry per operation, rank after rank (first[r] is rank r's), and are
  // filled in by run().
  Engine(const Plan& plan, const Hardware& hardware, const SimulateOptions& options,
         const KernelCostFunction& kernel_cost, std::span<const std::size_t> first,
         std::span<OperationTime> times, std::span<Cause> causes);

  // run() adds the operations that are done; `done` may lie in memory shared with another process.
  void count_in(std::atomic<std::int64_t>* done) { done_ = done; }
  void run();

 private:
  // ---- state: only what is in flight ----
  struct Host {
    std::uint32_t next = 0;       // operation to issue
    std::uint32_t completed = 0;  // operations
    double free_us = 0;
    std::uint32_t sync = no_operation;     // the host_sync it waits in
    std::uint32_t release = no_operation;  // whose completion it last waited for
    std::uint32_t wanted = 0;              // operations below are to be issued as soon as possible
  };
  struct Completion {
    double at_us = 0;
    std::uint32_t operation = 0;
  };
  struct LaneRun {
    std::uint32_t ready = no_operation;  // ready and not yet started
    double ready_us = 0;
    // Of the communication under way:
    int sms = 0;
    int active = 0;      // transfers matched and not complete
    double idle_us = 0;  // since when none is active
    double wait_us = 0;
    int moving = 0;  // flows under way
    double startup_us = 0;
    std::uint64_t only_part_bytes = 0;      // of an exchange that sends one part; 0: look it up
    Origin sent_origin = Origin::measured;  // of what it sends
    std::vector<std::uint32_t> queue;       // transfers past their start-up that wait for a flow to end
  };
  struct Transfer {
    OpRef sender, receiver;
    OpRef trigger;  // whose posting completed the match
    std::uint32_t parts = 0;
    std::uint32_t collective = no_operation;  // the collective's slot, and the sending member's number
    std::uint32_t member = 0;
    std::uint64_t bytes = 0;
    double begin_us = 0;
  };
  struct Collective {
    OpKind kind = OpKind::barrier;
    std::vector<OpRef> members;  // in group order
    OpRef trigger;
    // Bytes. all_gather: by member, what it gives; reduce_scatter: by member, what it will own; all_to_all:
    // by sender, then receiver. all_reduce: one operand.
    std::vector<std::uint64_t> parts;
    std::uint64_t bytes = 0;
    // Stepwise: steps begun, sent and received by each member; steps left of all.
    std::vector<int> begun, sent, received;
    std::size_t left = 0;
  };
  // A message curve taken apart for flows: time(bytes) = startup + bytes / cap.
  struct MessageCost {
    double startup_us = 0;
    double cap_bytes_us = 0;
    int channels = 0;
    Origin origin = Origin::measured;
  };
  enum class TokenKind : std::uint8_t { begin, start, gpu, startup, collective, local };
  static FlowEngine::Token token(TokenKind kind, std::uint64_t high, std::uint64_t low);

  // ---- host and lanes (engine.cpp) ----
  void advance_host(std::uint32_t rank);
  void continue_host(std::uint32_t rank, double at_us, std::uint32_t because);
  double issue_us(const Operation& op) const;
  // `because`: the operation of rank `because_rank` whose end or start let it become ready.
  void on_ready(OpRef ref, std::uint32_t because, std::uint32_t because_rank);
  void tell_started(OpRef ref);
  void schedule_start(OpRef ref);
  void start(OpRef ref);
  void start_kernel(OpRef ref);
  void finish(OpRef ref);
  void on_timer(FlowEngine::Token token);
  void handle(std::uint32_t rank);  // events_, of that rank's multiprocessors
  void drain();

  // ---- communication (communication.cpp) ----
  Path path_of(int a, int b) const;
  Path path_of_group(std::uint16_t group) const;
  const MessageCost& message_cost(const Operation& op, Path path, std::uint64_t bytes);
  MessageChoice collective_table(const Operation& op) const;
  int exchange_channels(const Operation& op, Path path);
  int channels_of(OpRef ref);
  // Sets the caps of the operation's port and the origin of what it sends; returns the larger start-up of the
  // paths that it uses.
  double prepare_port(OpRef ref, const std::array<std::uint64_t, 2>& bytes_by_path);
  void start_communication(OpRef ref);
  void on_resident(OpRef ref);
  void leave(OpRef ref);
  void post_exchange(OpRef ref);
  void begin_transfer(const Transfer& transfer, double startup_us);
  void startup_over(std::uint32_t slot);
  void launch(std::uint32_t slot);
  void flow_over(std::uint32_t slot);
  void transfer_over(std::uint32_t slot);
  void begin_activity(OpRef ref);
  void end_activity(OpRef ref);
  void note_end(OpRef ref, OpRef trigger, double begin_us);

  // ---- collectives (collectives.cpp) ----
  void meet(OpRef ref);
  void begin_collective(std::uint32_t slot);
  void measure(Collective& collective) const;
  static int steps_of(const Collective& collective);
  static std::uint64_t step_bytes(const Collective& collective, std::size_t member, int step);
  static std::uint64_t wire_bytes(const Collective& collective, std::size_t member);
  static std::size_t step_peer(const Collective& collective, std::size_t member, int step);
  void begin_stepwise(std::uint32_t slot);
  void next_step(std::uint32_t slot, std::size_t member, double startup_us);
  void step_over(const Transfer& transfer);
  void collective_over(std::uint32_t slot);

  const Operation& operation(OpRef ref) const { return plan_.ranks[ref.rank].operations[ref.operation]; }
  LaneRun& lane(OpRef ref) {
    return lane_runs_[static_cast<std::size_t>(ref.rank) * lanes_ + static_cast<std::size_t>(port(ref))];
  }
  int port(OpRef ref) const { return lane_of_[first_[ref.rank] + ref.operation]; }
  OperationTime& time(OpRef ref) { return times_[first_[ref.rank] + ref.operation]; }
  Cause& cause(OpRef ref) { return causes_[first_[ref.rank] + ref.operation]; }
  double now_us() const { return flows_.now_us(); }

  const Plan& plan_;
  const Hardware& hardware_;
  const SimulateOptions options_;
  const KernelCostFunction& kernel_cost_;
  std::vector<CallConverter> calls_;  // by rank
  std::span<const std::size_t> first_;
  std::span<OperationTime> times_;
  std::span<Cause> causes_;
  std::int64_t run_ahead_ = 0;

  Fabric fabric_;
  Slowdowns slowdowns_;
  Walk walk_;
  std::vector<int> lane_slot_;  // by kind * 256 + index; -1: not used
  int lanes_ = 0;
  std::vector<std::uint8_t> lane_of_;  // by operation, as times_
  std::vector<Host> hosts_;
  std::vector<std::vector<Completion>>
      completions_;                 // by rank: the last run_ahead_ of them, number i at i mod
  std::vector<LaneRun> lane_runs_;  // by rank * lanes_ + slot
  std::vector<Multiprocessors> gpus_;
  std::vector<double> wake_us_;  // by rank: the alarm that is set
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  std::vector<Collective> collectives_;
  std::vector<std::uint32_t> free_collectives_;
  using MessageKey = std::tuple<Transport, Path, std::size_t, std::uint64_t>;  // group size, bytes
  std::map<MessageKey, MessageCost> message_costs_;
  MessageKey last_cost_key_;  // of last_cost_
  const MessageCost* last_cost_ = nullptr;
  std::map<std::pair<Path, std::size_t>, int> exchange_channels_;
  std::vector<Path> group_path_;
  std::atomic<std::int64_t>* done_ = nullptr;

  std::vector<Multiprocessors::Event> events_;  // scratch, as the next two
  std::vector<Match> matched_;
  std::vector<Transfer> matched_transfers_;
  // For drain(): complete; resident; to be started.
  std::deque<OpRef> finished_, resident_, starts_;
  FlowEngine flows_;
};

}  // namespace cplab
