// A plan under a clock: host lanes, kernels, communication. Internal to sim/. Time in microseconds.
#pragma once

#include <algorithm>
#include <array>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "derive/walk.hpp"
#include "report/critical_path.hpp"
#include "sim/flow_engine.hpp"
#include "sim/message_pieces.hpp"
#include "sim/multiprocessors.hpp"
#include "sim/simulate.hpp"

namespace cplab {

// Times and causes of all operations: [rank][operation].
struct Recording {
  std::vector<std::span<OperationTime>> times;
  std::vector<std::span<Cause>> causes;
};

class Engine {
 public:
  // `recording` has one entry per operation, is filled in by run() and outlives the engine, as all the
  // others.
  Engine(const Plan& plan, const Hardware& hardware, const SimulateOptions& options,
         const KernelCostFunction& kernel_cost, const Recording& recording);

  // run() calls it every now and then with the number of operations that are done.
  void on_progress(std::function<void(std::int64_t done)> tell) { tell_ = std::move(tell); }
  // Changes of every rank's multiprocessors, from the start; outlives the engine.
  void keep_multiprocessors(std::vector<std::vector<MultiprocessorSample>>& samples);
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
  struct Queued {
    std::uint32_t distance = 0;  // from the sender up to the receiver
    std::uint32_t slot = 0;      // in transfers_
    std::uint64_t number = 0;    // in the order of queueing
    bool operator>(const Queued& other) const {
      return distance != other.distance ? distance > other.distance : number > other.number;
    }
  };
  struct LaneRun {
    std::uint32_t ready = no_operation;  // ready and not yet started
    double ready_us = 0;
    double free_us = 0;  // since when, of other operations
    // Of the communication under way:
    int sms = 0;
    double pressure = 1;
    int active = 0;      // transfers matched and not complete
    double idle_us = 0;  // since when none is active
    double wait_us = 0;
    std::array<int, 2> moving{};  // flows under way, by path
    double startup_us = 0;
    Origin sent_origin = Origin::measured;  // of what it sends
    bool launches = false;                  // the first of the queues will be launched at this instant
  };
  struct Transfer {
    OpRef sender, receiver;
    OpRef trigger;  // whose posting completed the match
    std::uint32_t parts = 0;
    std::uint32_t collective = no_operation;  // the collective's slot, and the numbers of both members
    std::uint32_t from = 0, to = 0;
    std::uint64_t bytes = 0;
    double begin_us = 0, startup_us = 0;
  };
  // A transfer with its parts, a list in matched_ by next_match_.
  struct Together {
    Transfer transfer;
    std::uint32_t first = 0, last = 0;
  };
  // What is asked of a view again and again.
  struct ViewFacts {
    std::int64_t bytes = -1;  // below 0: not known yet
    std::uint8_t pieces = 0;  // 0: not known yet, 1: one, 2: more
  };
  // What one member does in every round of all rings together.
  struct RingMember {
    struct Send {
      std::uint32_t to = 0;
      std::uint64_t bytes = 0;
    };
    std::array<Send, 2>
        sends;  // to the next of its node, to its like on the next node; 0 bytes: no such send
    int sends_a_round = 0, receives_a_round = 0;
    int begun = 0;  // rounds
    int sent = 0, received = 0;
  };
  struct Collective {
    OpKind kind = OpKind::barrier;
    std::vector<OpRef> members;  // in group order
    OpRef trigger;
    std::vector<std::uint32_t> position;  // of a member in the group, by rank; not of all_reduce
    std::uint64_t each = 0;               // bytes from the first member to the second
    bool even = true;                     // what goes from member to member: everywhere as much as that
    std::uint64_t operand = 0;            // of all_reduce, bytes
    double most = 0;                      // bytes that a rank sends or receives, the largest over members
    std::size_t left = 0;                 // transfers to be completed
    std::vector<RingMember> ring;         // empty where members trade in pairs
    std::uint64_t round_bytes = 0;        // that a member passes on in a round
    int rounds = 0;
  };
  // A message curve taken apart for flows: time(bytes) = startup + bytes / cap.
  struct MessageCost {
    double startup_us = 0;
    double cap_bytes_us = 0;
    int channels = 0;
    double share = 1;  // of the channels that the table was measured with
    Origin origin = Origin::measured;
  };
  struct GroupPaths {
    Path widest = Path::intra;  // inter: members are on several nodes
    bool shares_nodes = false;  // some node has several members
  };
  enum class TokenKind : std::uint8_t { begin, start, gpu, startup, launch, collective, local };
  static FlowEngine::Token token(TokenKind kind, std::uint64_t high, std::uint64_t low);

  // ---- host and lanes (engine.cpp) ----
  void advance_host(std::uint32_t rank);
  void continue_host(std::uint32_t rank, double at_us, std::uint32_t because);
  double issue_us(const Operation& op) const;
  // `because`: the operation of rank `because_rank` whose end or start let it become ready.
  void on_ready(OpRef ref, std::uint32_t because, std::uint32_t because_rank);
  void tell_started(OpRef ref);
  double head_start_over_us(OpRef ref);
  void schedule_start(OpRef ref);
  void start(OpRef ref);
  void start_kernel(OpRef ref);
  // On a rank that is slow, and in a call that is longer or shorter than the next.
  void disturb(OpRef ref, KernelCost& cost) const;
  void finish(OpRef ref);
  void on_timer(FlowEngine::Token token);
  void handle(std::uint32_t rank);  // events_, of that rank's multiprocessors
  void drain();

  // ---- communication (communication.cpp) ----
  Path path_of(int a, int b) const;
  Path path_of(const Transfer& transfer) const;
  GroupPaths paths_of_group(std::uint16_t group) const;
  MessageUse use_of(const Operation& op, Path path, double bytes) const;
  const MessageCost& message_cost(const Operation& op, Path path, std::uint64_t bytes);
  MessageChoice collective_table(const Operation& op, double bytes) const;
  Path path_of(OpRef a, OpRef b) const { return path_of(static_cast<int>(a.rank), static_cast<int>(b.rank)); }
  int flow_channels(const Operation& op, Path path);
  // Of `measured` channels those that the operation may have; its share of what they move.
  static int channels_of(const Operation& op, int measured) {
    return op.channels > 0 ? std::min<int>(op.channels, measured) : measured;
  }
  int channels_of(OpRef ref);
  double pressure_of(OpRef ref);
  // What a path's part of a rank's link or NIC is of the machine's; 1 where none is slow.
  double path_factor(std::uint32_t rank, Path path) const;
  // The same of what an operation sends on that path: of the sender's, or of the receivers' where all of them
  // have less.
  double port_factor(OpRef ref, Path path) const;
  // Sets the caps of the operation's port and the origin of what it sends; returns the larger start-up of the
  // paths that it uses.
  double prepare_port(OpRef ref, const std::array<std::uint64_t, 2>& bytes_by_path);
  void start_communication(OpRef ref);
  void on_resident(OpRef ref);
  void leave(OpRef ref);

  // ---- exchanges (exchanges.cpp) ----
  void post_exchange(OpRef ref);
  void gather_matches(OpRef ref);
  const ViewFacts& facts_of(const RankPlan& rank, std::uint32_t view);
  std::uint64_t bytes_of(const RankPlan& rank, std::uint32_t view);
  bool is_one_piece(const RankPlan& rank, std::uint32_t view);
  // The parts of one operation's messages to another, which match in their order.
  std::vector<MessagePart> parts_between(OpRef from, OpRef into) const;
  // What the parts that an operation sends to itself take: a copy on its lane.
  double local_copy_us(OpRef ref);
  double longer_by_us(const Together& together);
  double longer_in_parts_us(const Together& together);

  // ---- transfers (communication.cpp) ----
  // By how much an operation's messages take longer beside what its GPU computes now.
  Multiprocessors::Contention contention_of(OpRef ref, double bytes, double alone_us);
  void begin_transfer(const Transfer& transfer, double startup_us);
  void startup_over(std::uint32_t slot);
  void launch_next(LaneRun& run, Path path);
  void launch(std::uint32_t slot);
  void flow_over(std::uint32_t slot);
  void transfer_over(std::uint32_t slot);
  void begin_activity(OpRef ref);
  void end_activity(OpRef ref);
  void note_end(OpRef ref, OpRef trigger, double begin_us);
  void note_far(OpRef ref, const Transfer& transfer);

  // ---- collectives (collectives.cpp) ----
  void meet(OpRef ref);
  void begin_collective(std::uint32_t slot);
  std::uint64_t operand_bytes(const RankPlan& rank, const Operation& op);  // of all_reduce
  // To other ranks, over the wire, as a message table counts them.
  double sent_bytes(const RankPlan& rank, const Operation& op);
  void measure(Collective& collective);
  void measure_row(const Collective& collective, std::size_t member, std::vector<std::uint64_t>& row);
  // Whether the machine's tables of that collective are of whole calls (MessageTable::whole).
  bool is_whole(const Operation& op) const;
  double slowest_factor(const Collective& collective) const;
  // How much longer the messages that carry the collective take than its table says of one a pair.
  double carried_longer_us(const Collective& collective, const MessageTable& table, bool& in_pieces);
  double member_longer_us(const Collective& collective, std::size_t member, const MessageTable& table,
                          bool& by_library) const;
  bool in_rings(const Collective& collective) const;
  void begin_stepwise(std::uint32_t slot);
  void begin_pairs(std::uint32_t slot);
  void lay_rings(Collective& collective) const;
  void begin_rings(std::uint32_t slot);
  void next_round(std::uint32_t slot, std::uint32_t member, double startup_us);
  void begin_collective_transfer(std::uint32_t slot, std::uint32_t from, std::uint32_t to,
                                 std::uint64_t bytes, double startup_us);
  void collective_transfer_over(const Transfer& transfer);
  void note_origin(const Collective& collective);
  void collective_over(std::uint32_t slot);

  const Operation& operation(OpRef ref) const { return plan_.ranks[ref.rank].operations[ref.operation]; }
  LaneRun& lane(OpRef ref) {
    return lane_runs_[static_cast<std::size_t>(ref.rank) * lanes_ + static_cast<std::size_t>(port(ref))];
  }
  std::array<std::vector<Queued>, 2>& queues_of(const LaneRun& run) {
    return queues_[static_cast<std::size_t>(&run - lane_runs_.data())];
  }
  int port(OpRef ref) const { return lane_slot_[key_of(operation(ref).lane)]; }
  OperationTime& time(OpRef ref) { return recording_.times[ref.rank][ref.operation]; }
  Cause& cause(OpRef ref) { return recording_.causes[ref.rank][ref.operation]; }
  double now_us() const { return flows_->now_us(); }

  const Plan& plan_;
  const Hardware& hardware_;
  const SimulateOptions options_;
  const KernelCostFunction& kernel_cost_;
  std::vector<CallConverter> calls_;  // by rank
  const Recording& recording_;
  std::int64_t run_ahead_ = 0;

  Slowdowns slowdowns_;
  Contentions contentions_;
  Walk walk_;
  static std::size_t key_of(Lane lane) { return static_cast<std::size_t>(lane.kind) * 256 + lane.index; }
  static std::vector<int> number_lanes(const Plan& plan);
  std::vector<int> lane_slot_;  // by key_of; -1: not used
  int lanes_ = 0;
  Fabric fabric_;
  std::vector<double> compute_factor_;  // by rank; empty: 1
  std::vector<Host> hosts_;
  std::vector<std::vector<Completion>>
      completions_;                 // by rank: the last run_ahead_ of them, number i at i mod
  std::vector<LaneRun> lane_runs_;  // by rank * lanes_ + slot
  // Of those: transfers past their start-up that wait for a flow to end, by path; heaps, the next in front.
  std::vector<std::array<std::vector<Queued>, 2>> queues_;
  std::vector<Multiprocessors> gpus_;
  std::vector<std::vector<ViewFacts>> view_facts_;  // by rank, view
  // Of messages of one part, by the views at both ends, group and transport.
  using LongerKey = std::array<std::uint64_t, 3>;
  struct LongerHash {
    std::size_t operator()(const LongerKey& key) const {
      std::uint64_t mixed = 0;
      for (const std::uint64_t each : key) mixed = (mixed ^ each) * 0x9E3779B97F4A7C15u;
      return static_cast<std::size_t>(mixed ^ mixed >> 32);
    }
  };
  std::unordered_map<LongerKey, double, LongerHash> longer_us_;
  std::vector<double> wake_us_;  // by rank: the alarm that is set
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_transfers_;
  std::uint64_t queued_ = 0;
  std::vector<Collective> collectives_;
  std::vector<std::uint32_t> free_collectives_;
  using MessageKey = std::tuple<OpKind, Transport, Path, int, std::uint8_t, std::uint64_t>;
  std::map<MessageKey, MessageCost> message_costs_;
  MessageKey last_cost_key_;  // of last_cost_
  const MessageCost* last_cost_ = nullptr;
  std::map<std::tuple<OpKind, Path, std::uint16_t, std::uint8_t>, int> flow_channels_;  // by group, channels
  std::vector<GroupPaths> group_paths_;
  std::function<void(std::int64_t)> tell_;
  std::int64_t done_ = 0;  // operations

  std::vector<Multiprocessors::Event> events_;  // scratch, as the next four lines
  std::vector<Match> matched_;
  std::vector<std::uint32_t> next_match_;
  std::vector<Together> together_;
  std::vector<OpRef> ready_, startable_;
  // For drain(): complete; resident; to be started.
  std::deque<OpRef> finished_, resident_, starts_;
  std::unique_ptr<FlowEngine> flows_;
};

}  // namespace cplab
